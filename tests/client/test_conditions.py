"""The client under conditions: TLS, a busy user, a deaf network, a broker that is full."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from embermq.client import (
    Channel,
    Connection,
    ConnectionClosed,
    ConnectionFailed,
    Timeout,
    connect,
    connect_async,
)
from tests.support.network_proxy import Proxy
from tools.brokers import Broker, EmberBroker

PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A self-signed certificate for localhost, with its key in the same file."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl, which makes the certificate, is not installed")
    path = tmp_path_factory.mktemp("tls") / "localhost.pem"
    subprocess.run(
        f"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost "
        f"-addext subjectAltName=DNS:localhost -keyout {path}.key -out {path}".split(),
        check=True,
        capture_output=True,
        timeout=60,
    )
    path.write_bytes(path.read_bytes() + Path(f"{path}.key").read_bytes())
    return path


@pytest.fixture(scope="module")
def server_tls(certificate: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    return context


def eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


def test_tls_blocking(ember: Broker, certificate: Path, server_tls: ssl.SSLContext) -> None:
    with Proxy(ember.port, server_tls) as proxy:
        url = f"amqps://guest:guest@localhost:{proxy.port}/?cacertfile={certificate}"
        with connect(url) as connection, connection.channel() as channel:
            queue = channel.queue_declare(exclusive=True).name
            bodies = [b"%d" % number * 100 for number in range(3000)] + [b"x" * 2_000_000]
            channel.publish_batch(bodies, queue)
            got: list[bytes] = []
            with channel.consume(queue, timeout_s=PATIENCE_S) as consumer:
                for message in consumer:
                    got.append(message.body)
                    message.ack()
                    if len(got) == len(bodies):
                        break
            assert got == bodies
            proxy.cut()
            eventually(lambda: proxy.accepted == 2)
            channel.publish(b"again", channel.queue_declare(exclusive=True).name)


def test_tls_asyncio(ember: Broker, certificate: Path, server_tls: ssl.SSLContext) -> None:
    async def run(port: int) -> None:
        context = ssl.create_default_context(cafile=certificate)
        url = f"amqp://guest:guest@localhost:{port}/"
        async with await connect_async(url, tls=context) as connection:
            channel = await connection.channel()
            queue = (await channel.queue_declare(exclusive=True)).name
            await channel.publish_batch([b"x" * 10_000] * 300, queue)
            consumer = await channel.consume(queue)
            assert len(await consumer.fetch_all(300, PATIENCE_S)) == 300

    with Proxy(ember.port, server_tls) as proxy:
        asyncio.run(run(proxy.port))


def test_a_certificate_of_an_unknown_authority(ember: Broker, server_tls: ssl.SSLContext) -> None:
    with Proxy(ember.port, server_tls) as proxy:
        with pytest.raises(ConnectionFailed, match="CERTIFICATE_VERIFY_FAILED"):
            connect(f"amqps://guest:guest@localhost:{proxy.port}/")
        with connect(f"amqps://guest:guest@localhost:{proxy.port}/?verify=verify_none") as connection:
            assert connection.is_open


def test_heartbeats_go_on_while_the_user_is_busy(ember: Broker) -> None:
    with connect(ember.url, heartbeat_s=1, reconnect=False) as connection:
        channel = connection.channel()
        deadline = time.monotonic() + 3.5
        while time.monotonic() < deadline:
            sum(range(10_000))
        assert connection.is_open
        channel.queue_declare(exclusive=True)


def test_a_silent_network_is_noticed_by_both_shells(ember: Broker) -> None:
    async def run(port: int) -> None:
        url = f"amqp://guest:guest@127.0.0.1:{port}/?heartbeat=1&reconnect_delay=0.05"
        lost = asyncio.Event()
        async with await connect_async(url) as connection:
            connection.on_lost = lambda error: lost.set()
            proxy.deaf = True
            await asyncio.wait_for(lost.wait(), PATIENCE_S)
            proxy.deaf = False
            channel = await connection.channel()
            await channel.queue_declare(exclusive=True)

    with Proxy(ember.port) as proxy:
        url = f"amqp://guest:guest@127.0.0.1:{proxy.port}/?heartbeat=1&reconnect_delay=0.05"
        with connect(url) as connection:
            lost = threading.Event()
            connection.on_lost = lambda error: lost.set()
            channel = connection.channel()
            proxy.deaf = True
            confirmation = channel.publish_soon(b"x", "nowhere")
            assert lost.wait(PATIENCE_S)
            proxy.deaf = False
            confirmation.wait(PATIENCE_S)
        asyncio.run(run(proxy.port))


def publish_until_told(connection: Connection) -> tuple[Channel, str]:
    """A channel and a queue of a connection that knows that it is blocked."""
    reasons: list[str] = []
    told = threading.Event()
    connection.on_blocked = lambda reason: (reasons.append(reason), told.set())[0]
    channel = connection.channel()
    queue = channel.queue_declare(exclusive=True).name
    deadline = time.monotonic() + PATIENCE_S
    while not told.wait(0.02) and time.monotonic() < deadline:
        channel.publish_soon(b"x", queue)  # the broker looks at its disk now and then
    assert reasons == ["low on disk"]
    return channel, queue


def test_a_full_broker_says_so_and_is_not_waited_for_longer_than_asked() -> None:
    # A limit no disk can meet: publishing waits from the first message, everything else works.
    with EmberBroker(disk_free_limit=2**62) as broker:
        with connect(broker.url, blocked_timeout_s=2) as hasty:
            with pytest.raises(ConnectionClosed, match="low on disk"):
                channel, queue = publish_until_told(hasty)
                channel.publish(b"x", queue)
        with connect(broker.url, reconnect=False) as patient:
            channel, queue = publish_until_told(patient)
            with pytest.raises(Timeout, match="low on disk"):  # also when the socket takes no more
                channel.publish(b"x" * 20_000_000, queue, timeout_s=0.1)
            broker.kill()  # it would not read the goodbye behind all that, either
