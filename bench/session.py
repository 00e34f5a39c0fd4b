"""A blocking AMQP connection for what happens before and after a measurement: declare, bind, look, delete.

When everything is in place, the socket is handed to the load generator (`fileno()`).
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from bench.frames import PROTOCOL_HEADER, long, method, short, table

FRAME_BYTES_MAX = 131072
DURABLE, EXCLUSIVE, AUTO_DELETE, NO_WAIT = 2, 4, 8, 16
CLOSES = {(10, 50), (20, 40)}


class RefusedError(Exception):
    """The broker closed the channel or the connection; the text is its own."""


class Session:
    """One connection with one channel open."""

    def __init__(self, host: str, port: int, *, user: str = "guest", timeout_seconds: float = 60.0) -> None:
        self.socket = socket.create_connection((host, port), timeout=timeout_seconds)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._input = b""
        self._shake_hands(user.encode())

    def _shake_hands(self, user: bytes) -> None:
        """Whose password is the name once more."""
        self.socket.sendall(PROTOCOL_HEADER)
        self.expect((10, 10))
        start_ok = long(b"") + short("PLAIN") + long(b"\x00" + user + b"\x00" + user) + short("en_US")
        self.socket.sendall(method(10, 11, start_ok, channel=0))
        self.expect((10, 30))
        tune_ok = struct.pack(">HIH", 2047, FRAME_BYTES_MAX, 0)
        opening = method(10, 31, tune_ok, channel=0) + method(10, 40, short("/") + b"\x00\x00", channel=0)
        self.socket.sendall(opening)
        self.expect((10, 41))
        self.call(method(20, 10, b"\x00"), (20, 11))

    def fileno(self) -> int:
        return self.socket.fileno()

    def read_frame(self) -> tuple[int, bytes]:
        while True:
            if len(self._input) >= 7:
                kind, _, size = struct.unpack_from(">BHI", self._input)
                if len(self._input) >= size + 8:
                    payload = self._input[7 : 7 + size]
                    self._input = self._input[size + 8 :]
                    return kind, payload
            piece = self.socket.recv(65536)
            if not piece:
                raise RefusedError("the broker closed the socket")
            self._input += piece

    def forget_input(self) -> int:
        """What has been received and not looked at: how many bytes."""
        size, self._input = len(self._input), b""
        return size

    def expect(self, wanted: tuple[int, int]) -> bytes:
        """The arguments of the next method, which must be this one."""
        while True:
            kind, payload = self.read_frame()
            if kind != 1:
                continue
            got: tuple[int, int] = struct.unpack_from(">HH", payload)
            if got == wanted:
                return payload[4:]
            if got in CLOSES:
                code, size = struct.unpack_from(">HB", payload, 4)
                raise RefusedError(f"{code} {payload[7 : 7 + size].decode(errors='replace')}")

    def call(self, request: bytes, reply: tuple[int, int]) -> bytes:
        self.socket.sendall(request)
        return self.expect(reply)

    def call_all(self, requests: Iterable[bytes], reply: tuple[int, int], *, at_once: int = 200) -> None:
        """Many requests, a few hundred on the way at a time."""
        waiting = list(requests)
        for start in range(0, len(waiting), at_once):
            batch = waiting[start : start + at_once]
            self.socket.sendall(b"".join(batch))
            for _ in batch:
                self.expect(reply)

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
        self.call_all(
            (
                method(
                    50, 20, b"\x00\x00" + short(queue) + short(exchange) + short(key) + b"\x00" + long(b"")
                )
                for queue, key in bindings
            ),
            (50, 21),
        )

    def prefetch(self, count: int) -> None:
        self.call(method(60, 10, struct.pack(">IHB", 0, count, 0)), (60, 11))

    def confirm_select(self) -> None:
        self.call(method(85, 10, b"\x00"), (85, 11))

    def close(self) -> None:
        try:
            self.socket.settimeout(10)
            self.socket.sendall(method(10, 50, struct.pack(">H", 200) + short("bye") + bytes(4), channel=0))
            self.expect((10, 51))
        except (OSError, RefusedError):
            pass
        finally:
            self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def queue_declare(name: str, *, durable: bool) -> bytes:
    flags = bytes([DURABLE if durable else 0])
    return method(50, 10, b"\x00\x00" + short(name) + flags + long(b""))
