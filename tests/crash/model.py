"""What a broker that may be killed owes its clients: a simple model, asked after every restart.

Of each copy of a message (one per queue that it was routed to) the model knows one of four things:

    SENT    published, not answered: may be there or not
    SAFE    confirmed, or committed: must be there, unless it is transient
    LEAVING an ack, a purge or a deletion was sent and not answered: may be there or not
    GONE    the broker has answered something behind it: must never be seen again

For a definition: True, False, or None while a change is unanswered. All threads of a run share one model.

About a transaction: what was not committed must not be there at all; a commit that was answered is there
whole. A commit that was under way when the broker died may be there in part: AMQP promises nothing else, and
the copies of such a transaction are SENT.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass

from tests.crash.client import Delivery

SENT, SAFE, LEAVING, GONE = "sent", "safe", "leaving", "gone"
HIGH_PRIORITY_MIN = 5


@dataclass(frozen=True)
class Text:
    """A message as the driver writes it: who, which number, what is expected of it; then padding."""

    publisher: str
    number: int
    persistent: bool
    priority: int | None

    @property
    def key(self) -> str:
        mode = "persistent" if self.persistent else "transient"
        return f"{self.publisher}/{self.number}/{mode}/{'-' if self.priority is None else self.priority}"

    @property
    def high(self) -> bool:
        return (self.priority or 0) >= HIGH_PRIORITY_MIN

    def body(self, padding: int) -> bytes:
        return self.key.encode() + b" " + b"." * padding

    @staticmethod
    def parse(body: bytes) -> Text:
        publisher, number, mode, priority = body.split(b" ", 1)[0].decode().split("/")
        return Text(publisher, int(number), mode == "persistent", None if priority == "-" else int(priority))


@dataclass
class Copy:
    text: Text
    state: str
    delivered: bool = False


class Model:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.queues: dict[str, dict[str, Copy]] = {}
        self.definitions: dict[tuple[str, ...], bool | None] = {}
        self.failures: list[str] = []

    def snapshot(self) -> Model:
        """The model as it is now, for a copy of the disk as it is now."""
        copy = Model()
        with self.lock:
            copy.queues = deepcopy(self.queues)
            copy.definitions = dict(self.definitions)
            copy.failures = list(self.failures)
        return copy

    def fail(self, what: str) -> None:
        self.failures.append(what)

    # -- what the workers report

    def publishing(self, texts: Iterable[Text], queues: Iterable[str]) -> None:
        """Before it is sent."""
        with self.lock:
            for queue in queues:
                copies = self.queues.setdefault(queue, {})
                for text in texts:
                    assert text.key not in copies
                    copies[text.key] = Copy(text, SENT)

    def published(self, texts: Iterable[Text], queues: Iterable[str]) -> None:
        """Confirmed, or committed."""
        with self.lock:
            for queue in queues:
                for text in texts:
                    copy = self.queues[queue][text.key]
                    if copy.state == SENT:  # not if it was delivered and acked meanwhile
                        copy.state = SAFE

    def delivered(self, queue: str, delivery: Delivery) -> str:
        key = Text.parse(delivery.body).key
        with self.lock:
            copy = self.queues.get(queue, {}).get(key)
            if copy is None:
                self.fail(f"{queue} delivered {key}, which was never published there")
            elif copy.state == GONE:
                self.fail(f"{queue} delivered {key}, which is gone")
            else:
                if copy.delivered and not delivery.redelivered:
                    self.fail(f"{queue} delivered {key} twice, the second time not marked redelivered")
                copy.delivered = True
        return key

    def leaving(self, queue: str, keys: Iterable[str]) -> None:
        """Before the ack is sent."""
        self._change(queue, keys, LEAVING)

    def gone(self, queue: str, keys: Iterable[str]) -> None:
        """The broker has answered something that came behind the ack."""
        self._change(queue, keys, GONE)

    def _change(self, queue: str, keys: Iterable[str], state: str) -> None:
        with self.lock:
            for key in keys:
                copy = self.queues[queue].get(key)
                if copy is not None:
                    copy.state = state

    def keys(self, queue: str) -> list[str]:
        """All that may be in a queue."""
        with self.lock:
            return [key for key, copy in self.queues.get(queue, {}).items() if copy.state != GONE]

    def define(self, *what: str, there: bool | None) -> None:
        with self.lock:
            self.definitions[what] = there

    # -- after a restart

    def check_definition(self, what: tuple[str, ...], there: bool) -> None:
        expected = self.definitions[what]
        if expected is not None and expected != there:
            self.fail(
                f"{' '.join(what)} {'was deleted and is back' if there else 'was declared and is gone'}"
            )
        self.definitions[what] = there

    def check_queue(self, queue: str, found: list[Delivery]) -> None:
        """Compare what a queue holds after a restart, in order; from now on what was found is safe."""
        copies = self.queues.setdefault(queue, {})
        seen: set[str] = set()
        last: dict[tuple[bool, str], int] = {}
        low_seen = ""
        for delivery in found:
            text = Text.parse(delivery.body)
            key = text.key
            copy = copies.get(key)
            if copy is None:
                self.fail(f"{queue} holds {key}, which was never published there")
                continue
            if key in seen:
                self.fail(f"{queue} holds {key} twice")
            seen.add(key)
            if not text.persistent:
                self.fail(f"{queue} holds {key}, which is transient, after a restart")
            if copy.state == GONE:
                self.fail(f"{queue} holds {key}, which is gone")
            if copy.delivered and not delivery.redelivered:
                self.fail(f"{queue} holds {key}, which was delivered before, not marked redelivered")
            if text.high and low_seen:
                self.fail(f"{queue} holds {key} behind {low_seen} of lower priority")
            if not text.high:
                low_seen = key
            if text.number <= last.get((text.high, text.publisher), -1):
                self.fail(f"{queue} holds {key} out of order")
            last[text.high, text.publisher] = text.number
        for key, copy in copies.items():
            if copy.state == SAFE and copy.text.persistent and key not in seen:
                self.fail(f"{queue} has lost {key}")
        # What is gone need not be remembered: if it comes back, it "was never published".
        self.queues[queue] = {key: Copy(copies[key].text, SAFE, True) for key in copies if key in seen}
