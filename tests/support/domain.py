"""A broker's domain without sockets: turns run when a test says so; consumers count their credit."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import embermq
from embermq.broker.definitions import DefinitionStore
from embermq.broker.message.message import Message
from embermq.broker.queue.consumer import Consumer
from embermq.broker.queue.level import Entry
from embermq.broker.queue.queue import Queue
from embermq.broker.selector.selector import Selector
from embermq.broker.storage import Storage
from embermq.broker.turn import Turn
from embermq.broker.vhost import VirtualHost
from embermq.wire.frame import content_header
from embermq.wire.properties import Properties

PROPERTIES = Properties().encode()
SOURCES = Path(embermq.__file__).parents[1]


def constant(module: str, name: str) -> int:
    """A module's number, read in its source: compiled, it may be a number of C that Python does not see."""
    for node in ast.parse((SOURCES / f"{module.replace('.', '/')}.py").read_text()).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            if node.targets[0].id == name:
                return int(eval(compile(ast.Expression(node.value), module, "eval")))
    raise LookupError(f"{module} has no {name}")


NO_CONNECTION = constant("embermq.broker.queue.consumer", "NO_CONNECTION")


class Loop:
    """What a turn needs of an event loop, by hand."""

    def __init__(self) -> None:
        self.scheduled: list[Callable[[], None]] = []
        self.turn = Turn(self.scheduled.append)

    def run(self, passes_max: int = 100_000) -> int:
        """Run what is scheduled until nothing is; how many passes that took."""
        passes = 0
        while self.scheduled:
            assert passes < passes_max, "the loop never comes to rest"
            passes += 1
            self.run_once()
        return passes

    def run_once(self) -> None:
        """One pass."""
        scheduled, self.scheduled[:] = list(self.scheduled), []
        for action in scheduled:
            action()


def message(
    body: bytes = b"",
    *,
    priority: int = 0,
    persistent: bool = False,
    publisher: int = 7,
    exchange: str = "",
    key: str = "key",
    properties: bytes = PROPERTIES,
) -> Message:
    header = content_header(len(body), properties)
    names = bytes([len(exchange)]) + exchange.encode() + bytes([len(key)]) + key.encode()
    return Message(names, header + body, len(header), persistent, priority, publisher)


class Taker(Consumer):
    """A consumer with a number of deliveries as credit; it remembers what it got."""

    def __init__(
        self,
        queue: Queue,
        credit: int = 1_000_000,
        no_ack: bool = False,
        no_local_of: int = NO_CONNECTION,
        selector: str = "",
        priority: int = 0,
    ) -> None:
        super().__init__(queue, "tag", no_ack, False, no_local_of, {"x-priority": priority})
        self.selector = Selector(selector) if selector else None
        self.credit = credit
        self.got: list[Entry] = []
        self.orphaned = False

    def can_take(self, size: int) -> bool:
        return self.credit > 0

    def room(self) -> int:
        return self.credit

    def deliver(self, entry: Entry) -> int:
        self.credit -= 1
        self.got.append(entry)
        return 0

    def queue_deleted(self) -> None:
        self.orphaned = True

    @property
    def bodies(self) -> list[bytes]:
        return [entry.message.body for entry in self.got]


def new_vhost(
    loop: Loop, definitions: DefinitionStore | None = None, storage: Storage | None = None
) -> VirtualHost:
    loop.turn.storage = storage
    return VirtualHost("/", loop.turn, definitions or DefinitionStore(), storage)


def new_queue(vhost: VirtualHost, name: str = "q", **more: object) -> Queue:
    settings: dict[str, object] = {
        "owner": None,
        "durable": False,
        "exclusive": False,
        "auto_delete": False,
        "arguments": {},
    }
    return vhost.declare_queue(name, **(settings | more))  # type: ignore[arg-type]
