"""The versions of the protocol: the header that each begins with, its methods by number, its frames.

A method of 0-9-1 may be sent on a connection of any version: what is different there is a subclass with the
same fields and perhaps more, and `frame` writes that one.
"""

from __future__ import annotations

from collections.abc import Mapping

from embermq.errors import NotImplementedYet, SyntaxFault
from embermq.wire import methods, methods_0_8, methods_0_9
from embermq.wire.frame import PROTOCOL_HEADER, method_frame
from embermq.wire.methods import Method
from embermq.wire.primitive import Buffer, misfit

METHOD_ID_BYTES = 4


class Dialect:
    """A version of AMQP as one connection speaks it."""

    __slots__ = ("alternatives", "header", "methods", "name", "named", "version")

    def __init__(
        self,
        name: str,
        header: bytes,
        version: tuple[int, int],
        methods: Mapping[int, type[Method]],
        alternatives: Mapping[int, type[Method]] | None = None,
    ) -> None:
        self.name = name
        self.header = header
        self.version = version  # as connection.start tells it
        self.methods = methods
        self.alternatives = alternatives or {}  # other layouts of the same number, without zeros
        self.named = {method.NAME: method for method in (*methods.values(), *self.alternatives.values())}

    def __repr__(self) -> str:
        return f"Dialect({self.name!r})"

    def decode(self, buf: Buffer, pos: int, end: int) -> Method:
        """The method that fills `pos` to `end` of `buf`, a method frame's payload."""
        if pos + METHOD_ID_BYTES > end:
            raise misfit("method frame", pos + METHOD_ID_BYTES, end)
        method_id = int.from_bytes(buf[pos : pos + METHOD_ID_BYTES], "big")
        method_class = self.methods.get(method_id)
        if method_class is None:
            raise NotImplementedYet(f"unknown method id {{{method_id >> 16},{method_id & 0xFFFF}}}")
        try:
            return method_class.decode(buf, pos + METHOD_ID_BYTES, end)
        except SyntaxFault:
            alternative = self.alternatives.get(method_id)
            if alternative is None or 0 in buf[pos + METHOD_ID_BYTES : end]:
                raise
            return alternative.decode(buf, pos + METHOD_ID_BYTES, end)

    def name_of(self, method_id: int) -> str:
        """As in "queue.declare"; empty for a number that is no method here."""
        method_class = self.methods.get(method_id)
        return "" if method_class is None else method_class.NAME

    def method(self, method: Method) -> Method:
        """The same method as this version has it."""
        own = self.named.get(method.NAME, type(method))
        if isinstance(method, own):
            return method
        return own(**{name: getattr(method, name) for name in own.FIELDS if hasattr(method, name)})

    def frame(self, channel: int, method: Method) -> bytes:
        return method_frame(channel, self.method(method))


DIALECT_0_9_1 = Dialect("0-9-1", PROTOCOL_HEADER, (0, 9), methods.METHODS)
DIALECT_0_9 = Dialect("0-9", b"AMQP\x01\x01\x00\x09", (0, 9), methods_0_9.METHODS, methods_0_9.ALTERNATIVES)
DIALECT_0_8 = Dialect("0-8", b"AMQP\x01\x01\x08\x00", (8, 0), methods_0_8.METHODS, methods_0_8.ALTERNATIVES)
