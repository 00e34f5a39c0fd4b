"""Full segments of a stream on disk: a start does not read them, a reader notices what became of them."""

from __future__ import annotations

from pathlib import Path

from tests.support.pika_client import Client, eventually
from tests.support.pika_streams import declare, fill, offsets, read_range
from tools.brokers import EmberBroker

COUNT, BODY_BYTES, SEGMENT_BYTES = 300, 3000, 100_000


def directories(stored: EmberBroker) -> set[Path]:
    return set((stored.data_dir / "queues").iterdir())


def test_damage_in_a_full_segment_costs_what_is_damaged_and_nothing_else(stored: EmberBroker) -> None:
    with Client(stored.port) as client:
        others = directories(stored)
        stream = declare(client, x_stream_max_segment_size_bytes=SEGMENT_BYTES)
        fill(client, stream, COUNT, size=BODY_BYTES)
        [directory] = directories(stored) - others
        eventually(lambda: len(list(directory.glob("*.index"))) >= COUNT * BODY_BYTES // SEGMENT_BYTES - 1)
    stored.kill()
    damaged = sorted(directory.glob("*.segment"))[2]
    content = bytearray(damaged.read_bytes())
    content[-1] ^= 0xFF
    damaged.write_bytes(content)
    stored.start()
    aside = damaged.with_name(f"{damaged.name}.damaged-1")
    assert not aside.exists(), "full segments are not read at a start"
    with Client(stored.port) as client:
        seen = offsets(read_range(client, stream, "first", COUNT))
        assert len(seen) == COUNT - 1
        assert aside.exists()
        assert offsets(read_range(client, stream, "first", COUNT)) == seen
    stored.restart()
    with Client(stored.port) as client:
        assert offsets(read_range(client, stream, "first", COUNT)) == seen
        client.channel.queue_delete(stream)
