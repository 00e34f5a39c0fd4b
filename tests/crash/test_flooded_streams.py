"""Streams flooded from several connections, read in blocks while retention cuts them, and killed.

Each publisher floods both streams, so that most messages go from the read buffer straight into a log, and now
and then sends one that must take the long way between them. Bodies say who sent them and as which message:
after a kill what was confirmed is there, each publisher's messages are in their order without a gap, and
nothing is there that nobody sent. Readers want the same at any time, whatever retention takes meanwhile.

`--cycles N` says how often brokers are killed, `--crash-seed S` repeats one history (its choices).
"""

from __future__ import annotations

import random
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pamqp import commands as spec
from pamqp import frame as codec
from pamqp.body import ContentBody
from pamqp.header import ContentHeader

from tests.crash.client import CHANNEL, Client, Lost, publish_frames
from tests.support.pika_streams import unpacked
from tools.brokers import EmberBroker

KEPT, SHORT = "flooded", "flooded.short"
ARGUMENTS: dict[str, dict[str, object]] = {
    KEPT: {"x-stream-max-segment-size-bytes": 65536},
    SHORT: {"x-stream-max-segment-size-bytes": 65536, "x-max-length-bytes": 400_000},
}
PUBLISHERS = 3
BURST_MAX = 400
LARGE_BYTES = 70_000  # more than the rest of a segment
LIVES_MAX = 3
LIFE_S_MAX = 0.4
JOIN_S_MAX = 60.0


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        only = metafunc.config.getoption("--crash-seed")
        histories = max(1, metafunc.config.getoption("--cycles") // 24)
        metafunc.parametrize("seed", range(1, histories + 1) if only is None else [only])


def body_of(publisher: int, number: int) -> bytes:
    """What the publisher's message of that number looks like; nobody else's looks so."""
    text = b"%d/%d/" % (publisher, number)
    if number % 977 == 5:
        return text.ljust(LARGE_BYTES, b"L")
    return text.ljust(16 + number * 7919 % 300, b".")


def frames_of(stream: str, publisher: int, number: int) -> bytes:
    body = body_of(publisher, number)
    if number % 101 != 3:
        return publish_frames("", stream, body, True, None)
    headers = {"x-stream-filter-value": "rare", "number": number}
    frames = (
        spec.Basic.Publish(routing_key=stream),
        ContentHeader(body_size=len(body), properties=spec.Basic.Properties(headers=headers)),
        ContentBody(body),
    )
    return b"".join(codec.marshal(each, CHANNEL) for each in frames)


class Flood:
    """What was sent to one stream by whom, and what of it was confirmed."""

    def __init__(self, stream: str) -> None:
        self.stream = stream
        self.sent = [0] * PUBLISHERS
        self.confirmed = [0] * PUBLISHERS
        self.lost: list[set[int]] = [set() for _ in range(PUBLISHERS)]  # by a kill: were never confirmed

    def check(self, rows: list[tuple[int, bytes]], whole: bool) -> dict[int, int]:
        """Are these messages of this stream, in order; from its beginning on, if they are the whole? The last
        of each publisher's."""
        offsets = [offset for offset, _ in rows]
        assert offsets == sorted(set(offsets)), "offsets do not rise"
        last: dict[int, int] = dict.fromkeys(range(PUBLISHERS), 0) if whole else {}
        before = -1
        for offset, body in rows:
            publisher, number = map(int, body.split(b"/", 2)[:2])
            assert body == body_of(publisher, number), f"offset {offset} is spoiled"
            assert 0 < number <= self.sent[publisher], f"nobody sent {publisher}/{number}"
            if offset > before + 1 and before >= 0:
                assert not whole, f"a gap before {offset}"
                last.clear()  # retention has taken what is between
            if publisher in last:
                missing = set(range(last[publisher] + 1, number)) - self.lost[publisher]
                assert number > last[publisher], f"{publisher}/{number} after {last[publisher]}"
                assert not missing, f"{publisher}: {sorted(missing)[:5]} are missing before {number}"
            last[publisher], before = number, offset
        return last

    def check_after_kill(self, rows: list[tuple[int, bytes]], whole: bool) -> None:
        last = self.check(rows, whole)
        for publisher, confirmed in enumerate(self.confirmed):
            number = last.get(publisher, confirmed)  # retention may have taken all of one publisher's
            assert number >= confirmed, f"{publisher}: {number + 1}..{confirmed} were confirmed and are lost"
            self.lost[publisher].update(range(number + 1, self.sent[publisher] + 1))


class History:
    def __init__(self, directory: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.broker = EmberBroker(directory / "data")
        self.floods = [Flood(KEPT), Flood(SHORT)]
        self.failures: list[str] = []
        self.ranges = 0

    def run(self, lives: int) -> None:
        self.broker.start()
        client = Client(self.broker.port)
        for stream, arguments in ARGUMENTS.items():
            arguments = {"x-queue-type": "stream", **arguments}
            client.call(spec.Queue.Declare(queue=stream, durable=True, arguments=arguments))
        client.close()
        for _ in range(lives):
            self.live_and_die()
            self.broker.start()
            for flood in self.floods:
                flood.check_after_kill(self.read(flood.stream, 0), whole=flood.stream == KEPT)
        assert self.ranges, "nobody has read anything while it was flooded"
        log = self.broker.log_path.read_text(errors="replace")
        assert "fault of ours" not in log and "damaged" not in log, log[-3000:]

    def live_and_die(self) -> None:
        before = sum(self.floods[0].confirmed)
        works: list[Callable[[], None]] = [self.read_on]
        for publisher in range(PUBLISHERS):
            works.append(lambda publisher=publisher: self.publish(publisher))
        threads = [threading.Thread(target=self.guarded, args=(work,), daemon=True) for work in works]
        ranges = self.ranges
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + JOIN_S_MAX
        while time.monotonic() < deadline and not self.failures:
            if sum(self.floods[0].confirmed) > before and self.ranges > ranges:
                break
            time.sleep(0.005)
        time.sleep(self.chance.uniform(0, LIFE_S_MAX))
        self.broker.kill()
        for thread in threads:
            thread.join(JOIN_S_MAX)
            assert not thread.is_alive(), "somebody does not notice that the broker is gone"
        assert not self.failures, self.failures[0]

    def guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Lost:
            pass
        except Exception:
            self.failures.append(traceback.format_exc())

    @contextmanager
    def client(self) -> Iterator[Client]:
        client = Client(self.broker.port, {"consumer_cancel_notify": True})
        try:
            yield client
        finally:
            client.close()

    def publish(self, publisher: int) -> None:
        chance = random.Random(f"{self.chance.random()} {publisher}")
        with self.client() as client:
            self.flood(client, publisher, chance)

    def flood(self, client: Client, publisher: int, chance: random.Random) -> None:
        sent: list[tuple[Flood, int]] = []
        confirmed = 0

        def on_confirm(tag: int, multiple: bool) -> None:
            nonlocal confirmed
            for flood, number in sent[confirmed:tag]:
                flood.confirmed[publisher] = number
            confirmed = max(confirmed, tag)

        client.on_confirm = on_confirm
        client.call(spec.Confirm.Select())
        while True:
            flood = chance.choice(self.floods)
            first = flood.sent[publisher] + 1
            numbers = range(first, first + chance.randint(1, BURST_MAX))
            flood.sent[publisher] = numbers[-1]
            sent += [(flood, number) for number in numbers]
            client.send_bytes(b"".join(frames_of(flood.stream, publisher, number) for number in numbers))
            while confirmed + 2 * BURST_MAX < len(sent) or (confirmed < len(sent) and chance.random() < 0.1):
                client.next()

    def read_on(self) -> None:
        """Ranges in blocks, from the beginning or from the middle of something, up to what is confirmed."""
        chance = random.Random(self.chance.random())
        while True:
            flood = chance.choice(self.floods)
            count = sum(flood.confirmed)
            if count:
                begin = chance.choice([0, chance.randrange(count), max(0, count - 2000)])
                flood.check(self.read(flood.stream, begin, count), whole=False)
                self.ranges += 1

    def read(self, stream: str, begin: int, end: int | None = None) -> list[tuple[int, bytes]]:
        blocks: list[bytes] = []
        with self.client() as client:
            if end is None:
                end = client.call(spec.Queue.Declare(queue=stream, passive=True)).message_count
                end += self.first_offset(client, stream)
            client.on_delivery = lambda delivery: blocks.append(delivery.body)
            arguments = {"x-stream-offset": begin, "x-stream-end-offset": end, "x-stream-blocks": True}
            client.call(spec.Basic.Consume(queue=stream, no_ack=True, arguments=arguments))
            client.wait(spec.Basic.Cancel)
        rows = [row for block in blocks for row in unpacked(block)]
        assert all(begin <= offset < end for offset, _ in rows)
        return rows

    def first_offset(self, client: Client, stream: str) -> int:
        """Where a stream begins that nobody writes to."""
        found: list[int] = []
        client.on_delivery = lambda delivery: found.append(unpacked(delivery.body)[0][0])
        end = max(1, sum(sum(flood.sent) for flood in self.floods))
        arguments = {"x-stream-offset": "first", "x-stream-end-offset": end, "x-stream-blocks": True}
        tag = client.call(spec.Basic.Consume(queue=stream, no_ack=True, arguments=arguments)).consumer_tag
        while not found:
            client.next()
        client.send(spec.Basic.Cancel(consumer_tag=tag))
        client.wait((spec.Basic.CancelOk, spec.Basic.Cancel))
        return found[0]


@pytest.mark.timeout(600)
@pytest.mark.once("without compiled code there are no floods")
def test_floods_that_are_killed(tmp_path: Path, seed: int, pytestconfig: pytest.Config) -> None:
    history = History(tmp_path, seed)
    try:
        history.run(lives=min(LIVES_MAX, max(1, pytestconfig.getoption("--cycles") // 24)))
    finally:
        history.broker.close()
