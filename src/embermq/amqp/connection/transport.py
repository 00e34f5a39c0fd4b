"""The transport of a connection: an interface that `net` implements, and the limits of a connection."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


class Transport(Protocol):
    def send(self, data: bytes) -> None: ...

    def send_pieces(self, pieces: list[memoryview]) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None:
        """Soon, not at once: first feed what was read and not worked through, then read on."""
        ...

    def close(self, after_s: float = 0.0) -> None:
        """Send what is left, then shut the socket (after a pause)."""
        ...

    def later(self, after_s: float, action: Callable[[], None]) -> None: ...

    def heartbeat_negotiated(self, interval_s: int) -> None: ...


@dataclass(frozen=True)
class Limits:
    frame_max: int = 131072
    channel_max: int = 2047
    heartbeat_s: int = 60
    body_bytes_max: int = 134217728
    mechanisms: tuple[str, ...] = ("PLAIN", "AMQPLAIN", "EXTERNAL", "SCRAM-SHA-256")
    anonymous_user: str = ""
    refusal_pause_s: float = 1.0  # an error before login is answered slowly, so that guessing is slow too
    connections_max: int = 0  # of all clients together; 0: no limit
