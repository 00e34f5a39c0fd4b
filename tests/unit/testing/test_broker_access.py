"""A broker in memory with streams: files while it runs, none before the first stream and none afterwards."""

from __future__ import annotations

from pathlib import Path
from tempfile import gettempdir

import pika
import pytest

from embermq.testing import EmbeddedBroker

COUNT = 20


def fill_stream(broker: EmbeddedBroker) -> list[bytes]:
    """Confirmed publishing and reading again, and a durable queue beside it that stays in memory."""
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("stream", durable=True, arguments={"x-queue-type": "stream"})
        channel.queue_declare("queue", durable=True)
        for number in range(COUNT):
            channel.basic_publish("", "stream", b"%d" % number)
        channel.basic_publish("", "queue", b"kept", pika.BasicProperties(delivery_mode=2))
        assert [message.body for message in broker.messages("queue")] == [b"kept"]
        ends = {"x-stream-offset": "first", "x-stream-end-offset": COUNT}
        return [body for _, _, body in channel.consume("stream", auto_ack=True, arguments=ends)]


@pytest.mark.parametrize("process", [False, True])
@pytest.mark.parametrize("way", ["stop", "kill"])
def test_streams_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, process: bool, way: str) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert gettempdir() == str(tmp_path)
    broker = EmbeddedBroker(process=process)
    with broker:
        assert list(tmp_path.iterdir()) == []
        assert fill_stream(broker) == [b"%d" % number for number in range(COUNT)]
        [directory] = tmp_path.iterdir()
        assert len(list((directory / "queues").iterdir())) == 1, "only the stream is on disk"
        broker.kill() if way == "kill" else broker.stop()
        assert list(tmp_path.iterdir()) == []
        broker.start()
        assert broker.queues() == []
        assert fill_stream(broker) == [b"%d" % number for number in range(COUNT)], "offsets begin anew"
    assert list(tmp_path.iterdir()) == []
