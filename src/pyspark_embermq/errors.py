"""Exceptions of the data source; the text of each is a sentence for the user."""

from __future__ import annotations


class AMQPSourceError(Exception):
    """Something that the user can mend: a wrong option, a missing queue, a body that does not fit."""


class DataLossError(AMQPSourceError):
    """Messages that should have been read are not there any more."""


class Unreachable(AMQPSourceError):
    """No broker answers."""


class Denied(AMQPSourceError):
    """The broker does not let this user in, or not do this."""


class Missing(AMQPSourceError):
    """There is no such queue, exchange or lease."""
