"""The context of a request: the broker, the sessions of its clients, and numbers about the process."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from embermq import __version__
from embermq.broker.broker import Broker
from embermq.broker.node import node_name
from embermq.broker.queue.consumer import Consumer
from embermq.broker.queue.level import Entry
from embermq.broker.queue.queue import Queue
from embermq.broker.session_info import ChannelInfo, ConnectionCounts, ConnectionInfo
from embermq.broker.vhost import VirtualHost
from embermq.http.log_lines import LogLines
from embermq.http.pipeline_registry import KnownPipelines
from embermq.http.server.cooperative import StepScheduler
from embermq.http.server.session import SessionStore
from embermq.http.stats.history import History
from embermq.http.stats.live import LiveNumbers
from embermq.http.stats.login_counts import LoginCounts
from embermq.http.trace_writer import Traces
from embermq.http.views.name_index import NameOrder

__all__ = ["Context", "Listener", "Sessions"]

# What RabbitMQ's clients of the API look at to know which fields to expect.
RABBITMQ_VERSION = "3.10.8"


class Sessions(Protocol):
    """The connections, provided by the room that owns them: to look at, and to close."""

    def connections(self) -> Iterable[ConnectionInfo]: ...

    def connection(self, name: str) -> ConnectionInfo | None: ...

    def channels(self) -> Iterable[ChannelInfo]: ...

    def channel_of(self, consumer: Consumer) -> tuple[ChannelInfo, int] | None:
        """The channel that a consumer lives on, and the consumer's prefetch count."""
        ...

    def consumers_of(self, info: ChannelInfo) -> Iterable[Consumer]: ...

    def connection_count(self) -> int: ...

    def channel_count(self) -> int: ...

    def unacked(self, queue: Queue) -> Iterable[tuple[ChannelInfo, list[Entry]]]:
        """What a queue has out with clients, channel by channel."""
        ...

    def connection_counts(self) -> Iterable[ConnectionCounts]: ...

    def close_all(self, reason: str, *, user: str = "", vhost: str = "") -> Iterator[None]: ...

    def close(self, connection: ConnectionInfo, reason: str) -> None:
        """Send connection.close with CONNECTION_FORCED; the reason is in the text."""
        ...


@dataclass(frozen=True)
class Listener:
    protocol: str
    host: str
    port: int


@dataclass
class Context:
    broker: Broker
    sessions: Sessions
    listeners: list[Listener] = field(default_factory=list)
    started_at: float = field(default_factory=time.time)
    version: str = __version__
    build: str = ""  # compiled or interpreted
    node: str = field(default_factory=node_name)

    history: History = field(init=False)
    openapi: Callable[[], dict[str, Any]] = dict  # the document that describes the API
    measures: dict[str, Callable[[], float]] = field(default_factory=dict)  # of rooms we do not know

    # When the certificate of the listeners ends; None without TLS.
    certificate_end: Callable[[], float | None] = lambda: None

    log_lines: LogLines = field(default_factory=LogLines)
    logins: LoginCounts = field(default_factory=LoginCounts)
    connections_max: Callable[[], int] = lambda: 0  # of AMQP; 0: any number
    name_orders: WeakKeyDictionary[VirtualHost, NameOrder] = field(default_factory=WeakKeyDictionary)

    def is_here(self, node: str) -> bool:
        """Is that this node? Scripts that never heard of another broker call it rabbit@HOST."""
        return node in (self.node, f"rabbit@{self.node.partition('@')[2]}")

    async def queues_of(self, vhost: VirtualHost) -> list[Queue]:
        """In the order of their names. Not to be changed."""
        return await self.name_orders.setdefault(vhost, NameOrder()).queues(vhost, self.scheduler)

    def __post_init__(self) -> None:
        self.scheduler = StepScheduler(self.broker.turn)
        self.console_sessions = SessionStore(self.broker.users)
        self.pipelines = KnownPipelines(self.broker.turn)
        self.history = History(self.broker, self.sessions, self.scheduler)
        self.live = LiveNumbers(self.broker, self.sessions, self.history, self.scheduler)
        self.logins.listen(self.broker.events)
        storage = self.broker.storage
        directory = "" if storage is None else os.path.join(storage.data.layout.directory, "traces")
        self.traces = Traces(directory, self.scheduler)

    @property
    def uptime_ms(self) -> int:
        return int((time.time() - self.started_at) * 1000)


def resident_bytes() -> int:
    """Memory of this process that is really there; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0


def open_files() -> int:
    try:
        return len(os.listdir("/proc/self/fd"))
    except OSError:
        return 0
