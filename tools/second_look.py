"""Run the tests in parallel; look a second time, in quiet, at the few that failed.

    python -m tools.second_look [pytest arguments of the parallel run]

A run of thousands of tests in several processes on a busy machine may fail because of the load alone. When
at most SECOND_LOOKS_MAX tests failed, exactly these run again, in one process, with nothing beside them.
Those that pass now are named as flickering, loudly, and the run counts as passed; everything else counts as
failed: more failures, a failure that repeats, a test that is skipped the second time, a file that cannot be
imported, a session that did not come to its end.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tools.outcomes import Outcomes

SECOND_LOOKS_MAX = 3
TESTS_FAILED = 1  # pytest's exit status when the session was complete and a test failed
RULER = "!" * 100


def run(arguments: Sequence[str]) -> tuple[int, Outcomes]:
    """pytest's exit status and what it found; nothing when it did not come to an end."""
    with tempfile.TemporaryDirectory(prefix="embermq-outcomes-") as directory:
        path = Path(directory) / "outcomes.json"
        command = [sys.executable, "-m", "pytest", "-p", "tools.outcomes", f"--outcomes={path}", *arguments]
        status = subprocess.run(command, check=False).returncode
        return status, Outcomes.read(path) if path.exists() else Outcomes()


def say(headline: str, tests: Sequence[str]) -> None:
    print("\n".join(["", RULER, headline, *(f"    {name}" for name in tests), RULER, ""]), flush=True)


def main(arguments: Sequence[str]) -> int:
    status, first = run(arguments)
    suspects = first.failed
    if status != TESTS_FAILED or not suspects or first.not_collected:
        return status
    if len(suspects) > SECOND_LOOKS_MAX:
        say(f"{len(suspects)} tests failed: too many to be the load, so no second look.", suspects)
        return status

    say("A second look, one process and nothing beside it, at what failed:", suspects)
    status, second = run(["-q", *suspects])
    still = [name for name in suspects if name not in second.passed]
    if status != 0 or still:
        say("FAILED AGAIN, alone:", still or suspects)
        return status or TESTS_FAILED
    say("FLICKERING, MUST BE FIXED: failed under load, passed alone:", suspects)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
