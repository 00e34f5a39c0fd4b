"""How hypothesis behaves here: no time limit per example, because the machine may be busy with other things.

Where CI is set, hypothesis also stops varying its examples from run to run, so that a failure there is
nobody's bad luck.
"""

import os

from hypothesis import settings

settings.register_profile("embermq", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("embermq")
