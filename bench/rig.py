"""Put publishers and consumers before a broker, let them run, and count what it cost.

with Rig(target, slots=1) as rig:
    rig.declare(["bench"])
    rig.consumer({0: "bench"})
    rig.publisher([("", "bench")], body_bytes=16)
    outcome = rig.measure(seconds=5)
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from bench.build import load_module
from bench.frames import consume, publication
from bench.machine import busy_seconds
from bench.scenario import Outcome, Target
from bench.session import RefusedError, Session

STALL_SECONDS = 30.0


class Rig:
    """The connections of one run; whatever it declared is gone when it ends."""

    def __init__(
        self,
        target: Target,
        *,
        slots: int = 1,
        senders: int = 1,
        first_sender: int = 0,
        stride: int = 1,
        latencies: int = 0,
        outstanding_max: int = 0,
    ) -> None:
        self.target = target
        self.load: Any = load_module("load").Load(slots, senders, stride, latencies, outstanding_max)
        self.admin = Session(target.host, target.port)
        self._sessions: list[Session] = []
        self._queues: list[str] = []
        self._exchanges: list[str] = []
        self._senders = first_sender

    def declare(self, queues: Iterable[str], *, durable: bool = False) -> None:
        names = list(queues)
        self._queues += names
        self.admin.delete_queues(names)  # a run that was interrupted may have left them
        self.admin.declare_queues(names, durable=durable)

    def declare_stream(self, name: str) -> None:
        self._queues.append(name)
        self.admin.delete_queues([name])
        self.admin.declare_stream(name)

    def declare_exchange(self, name: str, kind: str) -> None:
        self._exchanges.append(name)
        self.admin.declare_exchange(name, kind)

    def session(self) -> Session:
        session = Session(self.target.host, self.target.port)
        self._sessions.append(session)
        return session

    def publisher(
        self,
        routes: Sequence[tuple[str, str]],
        *,
        body_bytes: int,
        fan: Sequence[int] | int = 1,
        persistent: bool = False,
        window: int = 0,
        rate: float = 0.0,
        limit: int = 0,
        chunk_bytes: int = 131072,
        headers: Sequence[Mapping[str, str | int]] = (),
        properties: Sequence[bytes] = (),
    ) -> None:
        """A connection that publishes to the (exchange, routing key) pairs in turn, or, if `headers` or
        `properties` (encoded) are given, to the first of them with these in turn."""
        session = self.session()
        if window:
            session.confirm_select()
        if properties:
            encoded = [
                publication(*routes[0], body_bytes, persistent=persistent, properties=more)
                for more in properties
            ]
        else:
            kinds = [(routes[0], more) for more in headers] or [(route, None) for route in routes]
            encoded = [
                publication(*route, body_bytes, persistent=persistent, headers=more) for route, more in kinds
            ]
        fans = [fan] * len(encoded) if isinstance(fan, int) else list(fan)
        self.load.publish_on(
            self.load.add_link(session.fileno(), chunk_bytes=max(chunk_bytes, 2 * len(encoded[0][0]))),
            [block for block, _ in encoded],
            [body_at for _, body_at in encoded],
            fans,
            limit=limit,
            window=window,
            rate=rate,
            sender=self._senders,
        )
        self._senders += 1

    def consumer(
        self,
        queues: Mapping[int, str],
        *,
        ack_every: int = 0,
        prefetch: int = 0,
        arguments: Mapping[str, str | int] | None = None,
    ) -> None:
        """A connection that consumes {slot: queue}; `ack_every` 0 means automatic acknowledgement."""
        session = self.session()
        if prefetch:
            session.prefetch(prefetch)
        preamble = b"".join(
            consume(queue, slot, no_ack=not ack_every, arguments=arguments) for slot, queue in queues.items()
        )
        link = self.load.add_link(session.fileno(), preamble, len(queues), chunk_bytes=16384)
        self.load.consume_on(link, ack_every)

    def measure(self, seconds: float = 0.0, *, waiting: int = 0) -> Outcome:
        """Run and relate the CPU time of both sides to the messages (deliveries, if there were any)."""
        all_cpu = busy_seconds()
        broker_cpu, load_cpu = self.target.cpu_seconds(), time.process_time()
        result = self.load.run(seconds, stall_seconds=STALL_SECONDS, waiting=waiting)
        broker_cpu = self.target.cpu_seconds() - broker_cpu
        load_cpu = time.process_time() - load_cpu
        other_cpu = max(0.0, busy_seconds() - all_cpu - broker_cpu - load_cpu)
        messages = max(result["delivered"] or result["published"], 1)
        metrics = {
            "messages_per_second": messages / result["seconds"],
            "published_per_second": result["published"] / result["seconds"],
            "broker_us_per_message": broker_cpu / messages * 1e6,
            "load_us_per_message": load_cpu / messages * 1e6,
            "broker_cores_busy": broker_cpu / result["seconds"],
            "other_cores_busy": other_cpu / result["seconds"],
            "rss_mb": self.target.rss_bytes() / 1e6,
            **{name: float(value) for name, value in result.items()},
        }
        columns = zip(*self.load.series(), strict=True)
        names = ("second", "published", "delivered", "confirmed")
        return Outcome(metrics, dict(zip(names, map(list, columns), strict=True)))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # After a failure the broker may be in any state: the error that matters is the first one.
        with contextlib.suppress(OSError, RefusedError) if error else contextlib.nullcontext():
            for session in self._sessions:
                session.close()
            self.admin.delete_queues(self._queues)
            for name in self._exchanges:
                self.admin.delete_exchange(name)
        self.admin.close()
