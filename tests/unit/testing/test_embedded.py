"""An embedded broker: what it shows, what it can be made to suffer, and that it leaves nothing behind."""

from __future__ import annotations

import gc
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import AMQPConnectionError, ConnectionClosedByBroker

from embermq.config import ConfigError
from embermq.errors import NotFound
from embermq.testing import BrokerNotRunning, EmbeddedBroker, QueueView


def connect(broker: EmbeddedBroker, vhost: str = "/") -> pika.BlockingConnection:
    return pika.BlockingConnection(pika.URLParameters(broker.url_of(vhost)))


@pytest.fixture(scope="module", params=["thread", "process"])
def broker(request: pytest.FixtureRequest) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(process=request.param == "process") as broker:
        yield broker


@pytest.fixture
def channel(broker: EmbeddedBroker) -> Iterator[BlockingChannel]:
    with broker.vhost() as vhost, connect(broker, vhost) as connection:
        channel = connection.channel()
        channel.vhost = vhost
        yield channel


def test_messages_are_seen_and_stay(broker: EmbeddedBroker, channel: BlockingChannel) -> None:
    channel.queue_declare("q")
    channel.basic_publish("", "q", b"one", pika.BasicProperties(headers={"n": 1}, content_type="text/plain"))
    channel.basic_publish("", "q", b"two")
    for _ in range(2):
        first, second = broker.wait_for_messages("q", 2, channel.vhost)
        assert (first.body, first.headers, first.properties) == (
            b"one",
            {"n": 1},
            {"content_type": "text/plain"},
        )
        assert (second.body, second.exchange, second.routing_key) == (b"two", "", "q")
    assert [view.body for view in broker.messages("q", channel.vhost, limit=1)] == [b"one"]
    assert broker.queues(channel.vhost) == ["q"]
    assert broker.purge("q", channel.vhost) == 2


def test_a_queue_is_described(broker: EmbeddedBroker, channel: BlockingChannel) -> None:
    assert broker.queue("nobody", channel.vhost) is None
    channel.queue_declare("q")
    channel.basic_publish("", "q", b"one")
    broker.wait_for_messages("q", 1, channel.vhost)
    method, _, _ = channel.basic_get("q")
    channel.basic_consume("q", lambda *_: None)
    broker.wait_for_consumers("q", 1, channel.vhost)
    assert broker.queue("q", channel.vhost) == QueueView("q", ready=0, unacked=1, consumers=1)
    with pytest.raises(TimeoutError, match="queue 'q' is empty"):
        broker.wait_until_empty("q", channel.vhost, timeout=0.05)
    channel.basic_ack(method.delivery_tag)
    broker.wait_until_empty("q", channel.vhost)


def test_who_waits_in_vain_is_told_what_there_is(broker: EmbeddedBroker, channel: BlockingChannel) -> None:
    channel.queue_declare("q")
    with pytest.raises(TimeoutError, match="queue 'q' has 2 messages; now: ready=0, unacked=0, consumers=0"):
        broker.wait_for_messages("q", 2, channel.vhost, timeout=0.05)
    with pytest.raises(TimeoutError, match="queue 'nobody' has 1 message; now: there is no such queue"):
        broker.wait_for_messages("nobody", 1, channel.vhost, timeout=0.05)
    with pytest.raises(TimeoutError, match="queue 'q' has 1 consumer; now: ready=0"):
        broker.wait_for_consumers("q", 1, channel.vhost, timeout=0.05)
    channel.basic_publish("", "q", b"late")
    broker.wait_for_messages("q", 1, channel.vhost)
    with pytest.raises(TimeoutError, match="queue 'q' is empty; now: ready=1"):
        broker.wait_until_empty("q", channel.vhost, timeout=0.05)


def test_what_is_wrong_comes_back_as_an_exception(broker: EmbeddedBroker) -> None:
    with pytest.raises(NotFound, match="no queue 'nobody' in vhost '/'"):
        broker.messages("nobody")
    for look in (broker.messages, broker.queue, broker.purge, broker.wait_for_messages):
        with pytest.raises(NotFound, match="no vhost 'nowhere'"):
            look("q", vhost="nowhere")
    with pytest.raises(NotFound, match="no vhost 'nowhere'"):
        broker.queues("nowhere")


def test_connections_that_fail(broker: EmbeddedBroker) -> None:
    broker.fail_next_connections(2)
    for _ in range(2):
        with pytest.raises(AMQPConnectionError):
            connect(broker)
    connect(broker).close()


def test_connections_that_are_closed_or_cut(broker: EmbeddedBroker) -> None:
    broker.wait_until(lambda: broker.connection_count() == 0, "those of other tests are gone")
    connection = connect(broker)
    assert broker.connection_count() == 1
    assert broker.close_connections("tea time") == 1
    with pytest.raises(ConnectionClosedByBroker, match="tea time"):
        connection.process_data_events(time_limit=60)
    broker.wait_until(lambda: broker.connection_count() == 0, "nobody is connected")
    connection = connect(broker)
    assert broker.drop_connections() == 1
    with pytest.raises(AMQPConnectionError):
        connection.process_data_events(time_limit=60)
    broker.wait_until(lambda: broker.connection_count() == 0, "nobody is connected")


def test_deliveries_that_pause(broker: EmbeddedBroker, channel: BlockingChannel) -> None:
    got: list[bytes] = []
    channel.queue_declare("q")
    channel.basic_consume("q", lambda _c, _m, _p, body: got.append(body), auto_ack=True)
    with broker.paused_deliveries():
        channel.basic_publish("", "q", b"later")
        assert broker.wait_for_messages("q", 1, channel.vhost)
        channel.queue_declare("q", passive=True)  # answers still come
        assert got == []
    while not got:
        channel.connection.process_data_events(time_limit=0.1)
    assert got == [b"later"]


def test_publishers_that_are_blocked(broker: EmbeddedBroker, channel: BlockingChannel) -> None:
    reasons: list[str] = []
    channel.queue_declare("q")
    channel.connection.add_on_connection_blocked_callback(
        lambda _, frame: reasons.append(frame.method.reason)
    )
    with broker.blocked_publishers():
        channel.basic_publish("", "q", b"one")
        while not reasons:
            channel.connection.process_data_events(time_limit=0.1)
    assert reasons == ["low on test resources"]
    channel.queue_declare("q", passive=True)
    broker.wait_for_messages("q", 1, channel.vhost)


@pytest.mark.parametrize("process", [False, True], ids=["thread", "process"])
def test_data_and_ports_survive_stop_and_kill(process: bool) -> None:
    with EmbeddedBroker(persistent=True, process=process) as broker:
        assert broker.temporary_dir is not None and broker.temporary_dir.exists()
        url = broker.url
        with connect(broker) as connection:
            connection.channel().queue_declare("q", durable=True)
        for number, end in enumerate((broker.stop, broker.kill)):
            connection = connect(broker)
            channel = connection.channel()
            channel.confirm_delivery()
            channel.basic_publish("", "q", b"%d" % number, pika.BasicProperties(delivery_mode=2))
            end()
            with suppress(AMQPConnectionError):
                connection.close()
            assert broker.url == url
            with pytest.raises(BrokerNotRunning):
                broker.queues()
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", broker.port), timeout=60)
            with socket.socket() as stranger, pytest.raises(OSError, match="in use"):
                stranger.bind(("127.0.0.1", broker.port))  # the port is kept for the broker
            broker.start()
            assert len(broker.messages("q")) == number + 1
        directory = broker.temporary_dir
    assert not directory.exists()


def test_a_directory_of_the_users_stays(tmp_path: Path) -> None:
    with EmbeddedBroker(data_dir=tmp_path / "mine"):
        pass
    assert (tmp_path / "mine").exists()


def open_files() -> list[str]:
    gc.collect()  # clients of other tests
    return sorted(os.listdir("/proc/self/fd"))


def test_nothing_is_left_behind() -> None:
    with EmbeddedBroker():
        pass  # what is imported or opened only once
    threads, files = threading.active_count(), len(open_files())
    for persistent in (False, True):
        with EmbeddedBroker(persistent=persistent) as broker:
            client = socket.create_connection(("127.0.0.1", broker.port))
            client.sendall(b"AMQP\x00\x00\x09\x01")
            assert client.recv(1) == b"\x01"
        client.close()
    assert (threading.active_count(), len(open_files())) == (threads, files)


def test_a_setting_that_cannot_be_is_refused() -> None:
    with pytest.raises(ConfigError, match="unknown setting 'heartbeet'; did you mean 'heartbeat'"):
        EmbeddedBroker(heartbeet=2)
    with pytest.raises(ConfigError, match="frame_max is 1"):
        EmbeddedBroker(frame_max=1).start()


def test_it_says_so_when_it_does_not_run() -> None:
    broker = EmbeddedBroker()
    for use in (lambda: broker.url, broker.queues, broker.kill):
        with pytest.raises(BrokerNotRunning):
            use()
    broker.stop()  # harmless


def test_a_child_does_not_outlive_its_test() -> None:
    program = (
        "import os; from embermq.testing import EmbeddedBroker\n"
        "broker = EmbeddedBroker(process=True).start(); print(broker.port, flush=True); os._exit(1)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    port = int(done.stdout)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            return
        time.sleep(0.05)
    raise AssertionError("the broker still listens")
