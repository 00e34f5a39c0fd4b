"""What a broker that may be killed owes its clients: a simple model, asked after every restart.

Of each copy of a message (one per queue that it was routed to) the model knows one of four things:

    SENT    published, not answered: may be there or not
    SAFE    confirmed, or committed: must be there, unless it is transient
    LEAVING an ack, a purge or a deletion was sent and not answered: may be there or not
    GONE    the broker has answered something behind it: must never be seen again

A message may also leave a queue by itself, as a dead letter: `letters` says which queue these go to. Of such
a queue the promise is that a safe message is there or in the other one. It may be in both after a crash (it
leaves the old one when it is safe in the new one), but a clean stop leaves no such twins. Whoever takes and
acks a letter before it is safe there sees it again after a crash, which finds it in the old queue: that is
forgiven until it must have left that queue (`_may_come_again`). A queue with a limit and nowhere for letters
to go has lost its oldest messages at most.

Who consumes with automatic acknowledgement (`draining`) may have been sent anything that was in the queue in
this life of the broker, and not have read it: of that queue nothing need be there, but what was read is GONE.

For a definition: True, False, or None while a change is unanswered. All threads of a run share one model.

About a transaction: what was not committed must not be there at all; a commit that was answered is there
whole. A commit that was under way when the broker died may be there in part: AMQP promises nothing else, and
the copies of such a transaction are SENT.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass

from tests.crash.client import Delivery

SENT, SAFE, LEAVING, GONE = "sent", "safe", "leaving", "gone"
HIGH_PRIORITY_MIN = 5
SETTLED_ROUNDS = 3  # after these a letter that was seen has left its old queue: see `_may_come_again`


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
    held: bool = False  # out with a client
    life: int = 0  # of the broker, in which it was published or seen
    count: int = 1  # more only of dead letters: see `twins`
    round: int = 0  # in which it was published or first seen


@dataclass(frozen=True)
class Kind:
    """What a queue does beside keeping messages in order."""

    letters: str | None = None  # the queue that its dead letters go to
    priority_max: int | None = None
    length_max: int | None = None
    arguments: tuple[tuple[str, object], ...] = ()  # others, of which the model need not know

    def declared(self) -> dict[str, object]:
        """The arguments of queue.declare."""
        found = dict(self.arguments)
        if self.letters is not None:
            found |= {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": self.letters}
        if self.priority_max is not None:
            found["x-max-priority"] = self.priority_max
        if self.length_max is not None:
            found["x-max-length"] = self.length_max
        return found

    def level(self, text: Text) -> int:
        """Messages of a higher level come first."""
        if self.priority_max is None:
            return int(text.high)
        return min(text.priority or 0, self.priority_max)


PLAIN = Kind()


class Model:
    def __init__(self, kinds: dict[str, Kind] | None = None, acks_stay: bool = True) -> None:
        self.lock = threading.Lock()
        self.kinds = kinds or {}
        self.acks_stay = acks_stay  # once written, as after a kill; a power cut may take them back
        self.queues: dict[str, dict[str, Copy]] = {}
        self.definitions: dict[tuple[str, ...], bool | None] = {}
        self.failures: list[str] = []
        self.life = 1
        self.round = 0  # one ends when something that was published in it is confirmed
        self.lengths: dict[str, int] = {}  # at the last look
        self.drained: set[str] = set()  # queues that somebody drains in this life
        self.twins: set[tuple[str, str]] = set()  # queue and message, which was among the letters, too

    def snapshot(self) -> Model:
        """The model as it is now, for a copy of the disk as it is now."""
        copy = Model(self.kinds, self.acks_stay)
        with self.lock:
            copy.queues = deepcopy(self.queues)
            copy.definitions = dict(self.definitions)
            copy.failures = list(self.failures)
            copy.life = self.life
            copy.round = self.round
            copy.lengths = dict(self.lengths)
            copy.twins = set(self.twins)
            copy.drained = set(self.drained)
        return copy

    def kind(self, queue: str) -> Kind:
        return self.kinds.get(queue, PLAIN)

    def sources(self, queue: str) -> list[str]:
        """The queues whose dead letters come here."""
        return [source for source, kind in self.kinds.items() if kind.letters == queue]

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
                    copies[text.key] = Copy(text, SENT, life=self.life, round=self.round)

    def published(self, texts: Iterable[Text], queues: Iterable[str]) -> None:
        """Confirmed, or committed."""
        with self.lock:
            for queue in queues:
                for text in texts:
                    copy = self.queues[queue][text.key]
                    if copy.round == self.round and text.persistent:
                        self.round += 1
                    if copy.state == SENT:  # not if it was delivered and acked meanwhile
                        copy.state = SAFE

    def delivered(self, queue: str, delivery: Delivery, in_order: bool = False) -> str:
        """A message came; `in_order`: nobody takes messages at the same time, so that it must be its turn."""
        text = Text.parse(delivery.body)
        with self.lock:
            copy = self._sighted(queue, text, "delivered")
            if copy is None:
                return text.key
            if copy.delivered and not delivery.redelivered and not self._is_repeated(queue, copy):
                self.fail(f"{queue} delivered {text.key} twice, the second time not marked redelivered")
            if in_order:
                self._check_turn(queue, text)
            copy.delivered = copy.held = True
        return text.key

    def _sighted(self, queue: str, text: Text, how: str, after_crash: bool = False) -> Copy | None:
        """The copy that was seen in a queue; None, and a failure, if it cannot be there."""
        copies = self.queues.setdefault(queue, {})
        copy = copies.get(text.key)
        at_source = [
            found
            for source in self.sources(queue)
            if (found := self.queues.get(source, {}).get(text.key)) is not None and found.state != GONE
        ]
        if copy is not None and copy.state == GONE and copy.count > 1:
            copy.state, copy.count = SAFE, copy.count - 1
        elif at_source and (
            copy is None
            or (copy.state == GONE and self._has_twin(queue, text.key))
            or (copy.state == GONE and after_crash and self._may_come_again(copy))
        ):
            # Not SAFE: what is promised is that it is here or where it came from.
            copy = copies[text.key] = Copy(text, SENT, life=self.life, round=self.round)
        if copy is None:
            self.fail(f"{queue} {how} {text.key}, which was never published there")
        elif copy.state == GONE:
            self.fail(f"{queue} {how} {text.key}, which is gone")
            return None
        return copy

    def _is_repeated(self, queue: str, copy: Copy) -> bool:
        return copy.count > 1 or self._has_twin(queue, copy.text.key)

    def _has_twin(self, queue: str, key: str) -> bool:
        """May this letter come once more, because a crash had brought it back to where it came from?"""
        return any((source, key) in self.twins for source in self.sources(queue))

    def _may_come_again(self, letter: Copy) -> bool:
        """Taken and acked, could this letter still have been where it came from when the broker died?

        It leaves there after the sync that made it safe where it went. That sync was asked for before anybody
        saw the letter, so it ends before the one that a later confirm waits for; a second confirm, because a
        sync that has to wait for a definition may be overtaken. The round in which the letter was seen does
        not count: what ended it may have been published earlier.
        """
        return not self.acks_stay or self.round < letter.round + SETTLED_ROUNDS

    def _check_turn(self, queue: str, text: Text) -> None:
        """No earlier message of the same level is waiting."""
        kind = self.kind(queue)
        if kind.letters is not None or kind.length_max is not None or self.sources(queue):
            return  # messages leave by themselves, and letters arrive in the order in which they died
        level = kind.level(text)
        for key, other in self.queues[queue].items():
            if key == text.key:
                return  # those behind it in the model came later
            waiting = other.state in (SENT, SAFE) and not other.held
            if waiting and (other.text.persistent or other.life == self.life):
                if kind.level(other.text) == level:
                    self.fail(f"{queue} delivered {text.key} before {key}")
                    return

    def draining(self, queue: str) -> None:
        """Before somebody consumes it with automatic acknowledgement."""
        with self.lock:
            self.drained.add(queue)

    def given_back(self, queue: str, keys: Iterable[str]) -> None:
        """Rejected, to be delivered again or to become a dead letter."""
        with self.lock:
            for key in keys:
                copy = self.queues[queue].get(key)
                if copy is not None:
                    copy.held = False

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
        if what[0] == "queue" and not there:
            for key, copy in self.queues.pop(what[1], {}).items():
                if copy.state == SAFE and copy.text.persistent:
                    self.fail(f"{what[1]} is gone, and {key} with it")

    def check_queues(self, contents: dict[str, list[Delivery]], after_crash: bool = True) -> None:
        """Compare what the queues hold after a restart, in order; from now on what was found is safe."""
        counts = {queue: self._check_content(queue, found, after_crash) for queue, found in contents.items()}
        seen = {queue: set(found) for queue, found in counts.items()}
        for queue, keys in seen.items():
            self._check_lost(queue, keys, seen)
            self._check_length(queue, keys, after_crash)
        twins = {
            (queue, key)
            for queue, keys in seen.items()
            for key in keys & seen.get(self.kind(queue).letters or "", set())
        }
        if not after_crash:
            for queue, key in twins - self.twins:
                self.fail(f"{key} is in {queue} and among its dead letters after a clean stop")
        self.twins = twins
        self.drained.clear()
        self.life += 1
        for queue, keys in seen.items():
            # What is gone need not be remembered: if it comes back, it "was never published".
            letters = seen.get(self.kind(queue).letters or "", set())
            self.queues[queue] = {
                key: self._found(copy, counts[queue][key])
                for key, copy in self.queues.get(queue, {}).items()
                if key in keys or (key in letters and copy.state in (SENT, SAFE))
            }
            self.lengths[queue] = len(keys)

    def _found(self, copy: Copy, count: int) -> Copy:
        """What is known of a copy after a look; not there, it became a dead letter, perhaps only just now."""
        state = SAFE if count else LEAVING
        return Copy(copy.text, state, delivered=True, life=self.life, count=count, round=self.round)

    def _check_content(self, queue: str, found: list[Delivery], after_crash: bool) -> Counter[str]:
        """Look at what is there; which messages these are."""
        kind = self.kind(queue)
        gathers_letters = bool(self.sources(queue))
        seen: Counter[str] = Counter()
        last: dict[tuple[int, str], int] = {}
        lowest: tuple[int, str] = (1 << 30, "")
        for delivery in found:
            text = Text.parse(delivery.body)
            key = text.key
            copy = self._sighted(queue, text, "holds", after_crash)
            if copy is None:
                continue
            if key in seen and not gathers_letters:
                self.fail(f"{queue} holds {key} twice")
            if not text.persistent:
                self.fail(f"{queue} holds {key}, which is transient, after a restart")
            if copy.delivered and not delivery.redelivered and not gathers_letters:
                self.fail(f"{queue} holds {key}, which was delivered before, not marked redelivered")
            seen[key] += 1
            level = kind.level(text)
            if level > lowest[0]:
                self.fail(f"{queue} holds {key} behind {lowest[1]} of lower priority")
            lowest = min(lowest, (level, key))
            if text.number <= last.get((level, text.publisher), -1) and not gathers_letters:
                self.fail(f"{queue} holds {key} out of order")
            last[level, text.publisher] = text.number
        return seen

    def _check_lost(self, queue: str, seen: set[str], everywhere: dict[str, set[str]]) -> None:
        if queue in self.drained:
            return
        kind = self.kind(queue)
        dropping: set[tuple[int, str]] = set()  # where something younger is there already
        for key, copy in self.queues.get(queue, {}).items():
            place = kind.level(copy.text), copy.text.publisher
            if key in seen:
                dropping.add(place)
            elif copy.state == SAFE and copy.text.persistent:
                if kind.letters is not None:
                    letter = self.queues.get(kind.letters, {}).get(key)
                    taken = letter is not None and letter.state in (LEAVING, GONE)
                    if not taken and key not in everywhere[kind.letters]:
                        self.fail(f"{queue} has lost {key}, which is not among the dead letters either")
                elif kind.length_max is None or (place in dropping and not self._was_pushed_out(queue, key)):
                    self.fail(f"{queue} has lost {key}")

    def _was_pushed_out(self, queue: str, key: str) -> bool:
        """Have there been as many messages behind this one as the queue may hold? Then it has left, and a
        power cut may still bring back an older one: acks in different files are safe in no certain order."""
        kind = self.kind(queue)
        assert kind.length_max is not None
        copies = self.queues[queue]
        level = kind.level(copies[key].text)
        behind, passed = 0, False
        for other, copy in copies.items():
            passed = passed or other == key
            if kind.level(copy.text) < level or (passed and other != key and kind.level(copy.text) == level):
                behind += 1
        return behind >= kind.length_max

    def _check_length(self, queue: str, seen: set[str], after_crash: bool) -> None:
        """A queue with a limit is as full as it can be, and not fuller, but for what a crash brought back."""
        kind = self.kind(queue)
        if kind.length_max is None:
            return
        if not after_crash and len(seen) > max(kind.length_max, self.lengths.get(queue, 0)):
            self.fail(f"{queue} holds {len(seen)} messages after a clean stop, and may {kind.length_max}")
        states = [copy.state for copy in self.queues.get(queue, {}).values() if copy.text.persistent]
        # One that was never confirmed may have pushed out another and then been lost itself.
        safe = states.count(SAFE) - states.count(SENT)
        if kind.letters is None and len(seen) < min(kind.length_max - states.count(SENT), safe):
            self.fail(f"{queue} holds {len(seen)} messages; {safe} were safe, it may hold {kind.length_max}")
