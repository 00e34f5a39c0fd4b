"""A blocking AMQP connection for what happens before and after a measurement: declare, bind, look, delete.

When everything is in place, the socket is handed to the load generator (`fileno()`).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Self

from bench.frames import CHANNEL, long, method, short, table
from tests.support.raw_client import FRAME_METHOD, Closed, RawClient, Silence

DURABLE, EXCLUSIVE, AUTO_DELETE, NO_WAIT = 2, 4, 8, 16
CLOSES = {(10, 50), (20, 40)}


class RefusedError(Exception):
    """The broker closed the channel or the connection; the text is its own."""


class Session(RawClient):
    """One connection with one channel open."""

    def __init__(self, host: str, port: int, *, user: str = "guest") -> None:
        """The password is the name once more."""
        super().__init__(port, host)
        self.handshake(user=user, password=user)
        self.channel(CHANNEL)

    def fileno(self) -> int:
        return int(self.socket.fileno())

    def forget_input(self) -> int:
        """What has been received and not looked at: how many bytes."""
        size = len(self._buffer)
        self._buffer.clear()
        return size

    def wait_for(self, wanted: tuple[int, int]) -> bytes:
        """The arguments of the next method of this kind."""
        while True:
            kind, _, payload = self.read_raw()
            if kind != FRAME_METHOD:
                continue
            got: tuple[int, int] = struct.unpack_from(">HH", payload)
            if got == wanted:
                return payload[4:]
            if got in CLOSES:
                code, size = struct.unpack_from(">HB", payload, 4)
                raise RefusedError(f"{code} {payload[7 : 7 + size].decode(errors='replace')}")

    def call(self, request: bytes, reply: tuple[int, int]) -> bytes:
        self.socket.sendall(request)
        return self.wait_for(reply)

    def call_all(self, requests: Iterable[bytes], reply: tuple[int, int], *, at_once: int = 200) -> None:
        """Many requests, a few hundred on the way at a time."""
        waiting = list(requests)
        for start in range(0, len(waiting), at_once):
            batch = waiting[start : start + at_once]
            self.socket.sendall(b"".join(batch))
            for _ in batch:
                self.wait_for(reply)

    def declare_queue(self, name: str, *, durable: bool = False) -> None:
        self.call(queue_declare(name, durable=durable), (50, 11))

    def declare_stream(self, name: str) -> None:
        arguments = table({"x-queue-type": "stream"})
        self.call(method(50, 10, b"\x00\x00" + short(name) + bytes([DURABLE]) + arguments), (50, 11))

    def declare_queues(self, names: Iterable[str], *, durable: bool = False) -> None:
        self.call_all((queue_declare(name, durable=durable) for name in names), (50, 11))

    def delete_queues(self, names: Iterable[str]) -> None:
        self.call_all((method(50, 40, b"\x00\x00" + short(name) + b"\x00") for name in names), (50, 41))

    def depth(self, name: str) -> int:
        """Messages ready in the queue, by passive declare."""
        answer = self.call(method(50, 10, b"\x00\x00" + short(name) + b"\x01" + long(b"")), (50, 11))
        depth: int = struct.unpack_from(">I", answer, 1 + answer[0])[0]
        return depth

    def declare_exchange(self, name: str, kind: str) -> None:
        self.call(method(40, 10, b"\x00\x00" + short(name) + short(kind) + b"\x00" + long(b"")), (40, 11))

    def delete_exchange(self, name: str) -> None:
        self.call(method(40, 20, b"\x00\x00" + short(name) + b"\x00"), (40, 21))

    def bind(self, exchange: str, bindings: Iterable[tuple[str, str]]) -> None:
        """(queue, routing key) pairs."""
        self.bind_with(exchange, ((queue, key, {}) for queue, key in bindings))

    def bind_with(self, exchange: str, bindings: Iterable[tuple[str, str, Mapping[str, str | int]]]) -> None:
        """(queue, routing key, arguments)."""
        self.call_all(
            (
                method(
                    50,
                    20,
                    b"\x00\x00" + short(queue) + short(exchange) + short(key) + b"\x00" + table(arguments),
                )
                for queue, key, arguments in bindings
            ),
            (50, 21),
        )

    def prefetch(self, count: int) -> None:
        self.call(method(60, 10, struct.pack(">IHB", 0, count, 0)), (60, 11))

    def confirm_select(self) -> None:
        self.call(method(85, 10, b"\x00"), (85, 11))

    def close(self, code: int = 200, text: str = "bye") -> None:
        try:
            super().close(code, text)
        except (OSError, Closed, Silence):
            self.drop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def queue_declare(name: str, *, durable: bool) -> bytes:
    flags = bytes([DURABLE if durable else 0])
    return method(50, 10, b"\x00\x00" + short(name) + flags + long(b""))
