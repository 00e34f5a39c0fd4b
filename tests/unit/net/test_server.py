"""Real sockets on a loop of the test's own: greeting, goodbye, fairness and the limits of patience."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import pytest

from embermq.app.app import App
from embermq.app.serve import new_event_loop
from embermq.config import Config
from embermq.net import protocol as protocol_module
from embermq.net import server as server_module
from embermq.wire import methods
from embermq.wire.frame import PROTOCOL_HEADER, method_frame
from tests.support.amqp_conversation import HANDSHAKE, frames_of, publish, start_ok
from tests.support.raw_client import FRAME_HEARTBEAT, FRAME_METHOD, Closed, RawClient, spec

Scenario = Callable[[App], Awaitable[None]]
Reply = TypeVar("Reply")
SECONDS_MAX = 60


def play(directory: Path, scenario: Scenario, **settings: object) -> None:
    """Run a scenario against an application that is started and stopped around it."""

    async def whole() -> None:
        config = Config(amqp_port=0, http_port=0, data_dir=directory / "data", **settings)  # type: ignore[arg-type]
        app = App(config)
        try:
            await app.start()
            await asyncio.wait_for(scenario(app), SECONDS_MAX)
        finally:
            await app.stop()
            for client in CONNECTED:
                client.drop()
            CONNECTED.clear()
        assert app.server.protocols == set()

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(whole())


CONNECTED: list[RawClient] = []


async def connected(app: App, address: str = "127.0.0.1") -> RawClient:
    """The application has the loop, so its clients wait in threads."""
    port = app.amqp_port
    sock = await asyncio.to_thread(socket.create_connection, ("127.0.0.1", port), source_address=(address, 0))
    client = RawClient(port, connected=sock)
    CONNECTED.append(client)
    return client


async def opened(app: App, heartbeat: int = 0, address: str = "127.0.0.1") -> RawClient:
    client = await connected(app, address)
    await asyncio.to_thread(client.handshake, heartbeat=heartbeat)
    await asyncio.to_thread(client.channel)
    return client


async def say(client: RawClient, data: bytes) -> None:
    await asyncio.to_thread(client.send_bytes, data)


async def next_method(client: RawClient) -> Any:
    """None when the broker hangs up. Heartbeats and content are read over."""
    while True:
        try:
            frame = await asyncio.to_thread(client.next_frame)
        except Closed:
            return None
        if frame.kind == FRAME_METHOD:
            return frame.value


async def wait_for(client: RawClient, kind: type[Reply]) -> Reply:
    while not isinstance(method := await next_method(client), kind):
        assert method is not None, f"the broker hung up instead of {kind.__name__}"
    return method


def test_the_ready_line_names_the_ports(tmp_path: Path) -> None:
    async def scenario(app: App) -> None:
        assert f"ready: amqp://127.0.0.1:{app.amqp_port}" in app.ready_line
        assert app.amqp_port > 0

    play(tmp_path, scenario)


def test_a_stop_says_goodbye(tmp_path: Path) -> None:
    said: list[Any] = []

    async def scenario(app: App) -> None:
        client = await opened(app)
        half_way = await connected(app)
        await say(half_way, PROTOCOL_HEADER)
        await wait_for(half_way, spec.Connection.Start)

        async def listen() -> None:
            close = await next_method(client)
            await say(client, frames_of([methods.ConnectionCloseOk()]))
            said.extend([close, await next_method(client), await next_method(half_way)])

        listener = asyncio.ensure_future(listen())
        await app.server.stop(1.0)
        await listener

    play(tmp_path, scenario)
    close, end, stranger = said
    assert isinstance(close, spec.Connection.Close) and close.reply_code == 320
    assert close.reply_text == "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'"
    assert end is None and stranger is None


def test_a_stop_finds_connections_that_have_just_come(tmp_path: Path) -> None:
    """They are at every step between the socket and the protocol: all are closed, none is forgotten."""

    async def scenario(app: App) -> None:
        sockets = [socket.socket() for _ in range(30)]
        try:
            for number, sock in enumerate(sockets):
                sock.setblocking(False)
                with suppress(BlockingIOError):
                    sock.connect(("127.0.0.1", app.amqp_port if number % 3 else app.http_port))
            while not any(listener.connecting for listener in app.listeners.listeners):
                await asyncio.sleep(0)
            await app.listeners.close()
            assert app.server.admission.taken_count == len(app.server.protocols)
            await app.server.stop(0.1)
            assert not app.server.protocols and not app.server.admission.taken_count
        finally:
            for sock in sockets:
                sock.close()

    play(tmp_path, scenario)


def test_a_client_that_declares_and_leaves_gets_both_answers(tmp_path: Path) -> None:
    """The first waits for the disk, the second must not overtake it; and others are not disturbed."""

    async def scenario(app: App) -> None:
        for number in range(20):
            client, witness = await connected(app), await connected(app)
            declare = methods.QueueDeclare(queue=f"q{number}", durable=True)
            await say(
                client,
                HANDSHAKE
                + frames_of([methods.ChannelOpen(), declare], 1)
                + frames_of([methods.ConnectionClose(200, "", 0, 0)]),
            )
            await wait_for(client, spec.Queue.DeclareOk)
            await wait_for(client, spec.Connection.CloseOk)
            assert await next_method(client) is None
            rude = await connected(app)
            await say(rude, HANDSHAKE + frames_of([methods.ChannelOpen(), declare], 1))
            rude.drop()  # does not even wait
            await asyncio.to_thread(witness.handshake)
            witness.drop()

    play(tmp_path, scenario)


def test_strangers_are_shown_out_wherever_they_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "TICK_S", 0.1)

    async def scenario(app: App) -> None:
        app.server.handshake_s = 0.2
        tune = methods.ConnectionTuneOk(channel_max=10, frame_max=131072, heartbeat=0)
        beginnings = [
            b"",
            b"AMQP",
            PROTOCOL_HEADER,
            PROTOCOL_HEADER + frames_of([start_ok()]),
            PROTOCOL_HEADER + frames_of([start_ok(), tune]),
        ]
        guest = await opened(app)
        strangers = [await connected(app) for _ in beginnings]
        for stranger, beginning in zip(strangers, beginnings, strict=True):
            await say(stranger, beginning)
        for stranger in strangers:
            while await next_method(stranger) is not None:
                pass
        await say(guest, method_frame(1, methods.BasicQos()))
        await wait_for(guest, spec.Basic.QosOk)
        guest.drop()

    play(tmp_path, scenario)


def test_heartbeats_come_and_are_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "TICK_S", 0.1)

    async def scenario(app: App) -> None:
        client = await opened(app, heartbeat=1)
        assert (await asyncio.to_thread(client.read_frame)).kind == FRAME_HEARTBEAT
        await asyncio.to_thread(client.expect_eof)  # when the broker has had enough of our silence

    play(tmp_path, scenario)


def test_a_round_is_made_in_steps_and_leaves_out_who_has_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "CONNECTIONS_PER_STEP", 2)

    async def scenario(app: App) -> None:
        server = app.server
        assert server.ticker is not None
        server.ticker.cancel()  # the steps are made here
        for _ in range(5):
            await opened(app)
        looked: list[object] = []
        monkeypatch.setattr(server, "check", lambda protocol, now, date: looked.append(protocol))
        more = iter([True, True, False])
        server.on_tick[:] = [lambda: next(more)]
        steps = server.round()
        assert [len(looked) for _ in steps] == [0, 0, 0, 0, 2, 4], "three for the action, then two by two"
        assert set(looked) == server.protocols and len(looked) == 5
        looked.clear()
        server.on_tick.clear()
        steps = server.round()
        next(steps)
        next(steps)
        (gone, *_) = server.protocols - set(looked)
        gone.transport.abort()
        while gone in server.protocols:
            await asyncio.sleep(0)
        assert len(list(steps)) == 1
        assert gone not in looked and len(looked) == 4
        server.start()

    play(tmp_path, scenario)


def test_a_flood_is_read_in_shares_and_arrives_whole(tmp_path: Path) -> None:
    async def scenario(app: App) -> None:
        client = await opened(app)
        await say(client, method_frame(1, methods.QueueDeclare(queue="q")))
        await say(client, publish("q", bytes(1000)) * 5000 + publish("q", bytes(3_000_000), frame_max=131072))
        await say(client, method_frame(1, methods.QueueDeclare(queue="q", passive=True)))
        await wait_for(client, spec.Queue.DeclareOk)
        counted = await wait_for(client, spec.Queue.DeclareOk)
        assert counted.message_count == 5001
        client.drop()

    play(tmp_path, scenario)


def test_beside_others_a_flood_is_read_in_pieces_and_all_get_what_is_theirs(tmp_path: Path) -> None:
    async def scenario(app: App) -> None:
        flooding = await opened(app)
        quiet = await opened(app)
        await say(flooding, method_frame(1, methods.QueueDeclare(queue="flood")))
        await wait_for(flooding, spec.Queue.DeclareOk)
        flood = asyncio.create_task(say(flooding, publish("flood", bytes(16)) * 40_000))
        await say(quiet, method_frame(1, methods.QueueDeclare(queue="quiet")))
        await say(quiet, method_frame(1, methods.BasicConsume(queue="quiet", no_ack=True)))
        await wait_for(quiet, spec.Basic.ConsumeOk)
        for _ in range(50):
            await say(quiet, publish("quiet", b"small"))
            await wait_for(quiet, spec.Basic.Deliver)
        await flood
        await say(flooding, method_frame(1, methods.QueueDeclare(queue="flood", passive=True)))
        counted = await wait_for(flooding, spec.Queue.DeclareOk)
        assert counted.message_count == 40_000
        flooding.drop()
        quiet.drop()

    play(tmp_path, scenario)


def test_one_that_says_goodbye_and_never_reads_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol_module, "LINGER_S_MAX", 0.1)

    async def scenario(app: App) -> None:
        # Little room on the way, so that most of what is returned must wait in the broker.
        narrow = socket.socket()
        narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        narrow.setblocking(False)
        await app.loop.sock_connect(narrow, ("127.0.0.1", app.amqp_port))
        await app.loop.sock_sendall(narrow, HANDSHAKE + frames_of([methods.ChannelOpen()], 1))
        for _ in range(12):
            unroutable = publish("nowhere", bytes(1_000_000), mandatory=True, frame_max=131072)
            await app.loop.sock_sendall(narrow, unroutable)
        await app.loop.sock_sendall(narrow, frames_of([methods.ConnectionClose(200, "", 0, 0)]))
        while not app.server.protocols:
            await asyncio.sleep(0.01)
        while app.server.protocols:
            await asyncio.sleep(0.01)
        narrow.close()

    play(tmp_path, scenario)


def test_a_fault_in_a_round_does_not_end_the_rounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(server_module, "TICK_S", 0.001)

    async def scenario(app: App) -> None:
        rounds = asyncio.Semaphore(0)

        def fail() -> bool:
            rounds.release()
            raise RuntimeError("a fault of ours")

        app.server.on_tick.append(fail)
        for _ in range(3):
            await rounds.acquire()

    play(tmp_path, scenario)
    assert "in what is done every half second" in caplog.text


def test_a_fault_in_a_round_does_not_keep_heartbeats_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with too many open files, when memory cannot be looked at: dead peers, which have them, must go."""
    monkeypatch.setattr(server_module, "TICK_S", 0.1)

    def fail() -> bool:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), "/proc/self/statm")

    async def scenario(app: App) -> None:
        app.server.on_tick.insert(0, fail)
        client = await opened(app, heartbeat=1)
        async with asyncio.timeout(30):
            assert (await asyncio.to_thread(client.read_frame)).kind == FRAME_HEARTBEAT
            await asyncio.to_thread(client.expect_eof)  # when the broker has had enough of our silence

    play(tmp_path, scenario)


def test_a_client_that_asks_for_much_gets_it_all(tmp_path: Path) -> None:
    """More than one turn may put together, and while a durable declaration holds the output back."""

    async def scenario(app: App) -> None:
        client = await opened(app)
        await say(client, method_frame(1, methods.QueueDeclare(queue="q")))
        await say(client, publish("q", bytes(2_000_000), frame_max=131072))
        asked: list[methods.Method] = []
        for number in range(10):
            asked.append(methods.QueueDeclare(queue=f"durable{number}", durable=True))
            for _ in range(3):
                asked.append(methods.BasicGet(queue="q"))
                asked.append(methods.BasicNack(delivery_tag=0, multiple=True, requeue=True))
        await say(client, frames_of(asked, 1))
        await wait_for(client, spec.Queue.DeclareOk)
        for number in range(10):
            declared = await wait_for(client, spec.Queue.DeclareOk)
            assert declared.queue == f"durable{number}"
            for tag in range(3 * number + 1, 3 * number + 4):
                got = await wait_for(client, spec.Basic.GetOk)
                assert got.delivery_tag == tag

    play(tmp_path, scenario)


def test_what_is_durable_outlives_the_application(tmp_path: Path) -> None:
    async def before(app: App) -> None:
        client = await opened(app)
        await say(client, method_frame(1, methods.QueueDeclare(queue="kept", durable=True)))
        await wait_for(client, spec.Queue.DeclareOk)
        client.drop()

    async def after(app: App) -> None:
        assert list(app.broker.vhosts["/"].queues) == ["kept"]

    play(tmp_path, before)
    play(tmp_path, after)
