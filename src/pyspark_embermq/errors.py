"""What reaches the user when something is wrong: a sentence, never a stack of somebody else's frames."""

from __future__ import annotations


class AMQPSourceError(Exception):
    """Something that the user can mend: a wrong option, a missing queue, a body that does not fit."""


class DataLossError(AMQPSourceError):
    """Messages that should have been read are not there any more."""
