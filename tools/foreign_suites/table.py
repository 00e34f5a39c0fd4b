"""All suites by their names, in the order of the documentation."""

from __future__ import annotations

from tools.foreign_suites.java_suites import JAVA_SUITES
from tools.foreign_suites.other_suites import OTHER_SUITES
from tools.foreign_suites.python_suites import PYTHON_SUITES

SUITES = {suite.name: suite for suite in [*PYTHON_SUITES, *JAVA_SUITES, *OTHER_SUITES]}
