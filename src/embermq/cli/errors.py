"""`CommandFailed`: how a command ends when it cannot do what it was asked."""

from __future__ import annotations

# What the exit codes of all commands mean (docs/cli.md).
OK, REFUSED, USAGE_ERROR, UNREACHABLE, NOT_FOUND, DENIED = 0, 1, 2, 3, 4, 5


class CommandFailed(Exception):
    """Ends a command: a sentence for people, an exit code for scripts."""

    def __init__(self, text: str, code: int = REFUSED) -> None:
        super().__init__(text)
        self.code = code
