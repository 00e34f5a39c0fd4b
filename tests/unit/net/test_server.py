"""Real sockets on a loop of the test's own: greeting, goodbye, fairness and the limits of patience."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest

from embermq.app.app import App
from embermq.app.serve import new_event_loop
from embermq.config import Config
from embermq.net import protocol as protocol_module
from embermq.net import server as server_module
from embermq.wire import methods
from embermq.wire.frame import HEARTBEAT_FRAME, PROTOCOL_HEADER, method_frame
from tests.support.amqp_conversation import HANDSHAKE, frames_of, publish, split_frames, start_ok

Scenario = Callable[[App], Awaitable[None]]
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
            for client in Client.connected:
                client.writer.close()
            Client.connected.clear()
        assert app.server.protocols == set()

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(whole())


class Client:
    connected: list[Client] = []

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.connected.append(self)

    @classmethod
    async def connect(cls, app: App) -> Client:
        return cls(*await asyncio.open_connection("127.0.0.1", app.amqp_port))

    async def method(self) -> methods.Method | None:
        """The next method; None when the broker hangs up. Heartbeats and content are read over."""
        while True:
            try:
                head = await self.reader.readexactly(7)
                rest = await self.reader.readexactly(int.from_bytes(head[3:], "big") + 1)
            except (asyncio.IncompleteReadError, ConnectionError):
                return None
            ((kind, _, payload),) = split_frames(head + rest)
            if kind == 1:
                return methods.decode_method(payload, 0, len(payload))

    async def expect(self, kind: type[methods.Method]) -> methods.Method:
        while True:
            method = await self.method()
            assert method is not None, f"the broker hung up instead of {kind.__name__}"
            if isinstance(method, kind):
                return method

    async def open(self, heartbeat: int = 0) -> Client:
        tune = methods.ConnectionTuneOk(channel_max=10, frame_max=131072, heartbeat=heartbeat)
        opening: list[methods.Method] = [start_ok(), tune, methods.ConnectionOpen(virtual_host="/")]
        self.writer.write(PROTOCOL_HEADER + frames_of(opening) + frames_of([methods.ChannelOpen()], 1))
        await self.expect(methods.ChannelOpenOk)
        return self


def test_the_ready_line_names_the_ports(tmp_path: Path) -> None:
    async def scenario(app: App) -> None:
        assert f"ready: amqp://127.0.0.1:{app.amqp_port}" in app.ready_line
        assert app.amqp_port > 0

    play(tmp_path, scenario)


def test_a_stop_says_goodbye(tmp_path: Path) -> None:
    said: list[methods.Method | None] = []

    async def scenario(app: App) -> None:
        client = await (await Client.connect(app)).open()
        half_way = await Client.connect(app)
        half_way.writer.write(PROTOCOL_HEADER)
        await half_way.expect(methods.ConnectionStart)

        async def listen() -> None:
            close = await client.method()
            client.writer.write(frames_of([methods.ConnectionCloseOk()]))
            said.extend([close, await client.method(), await half_way.method()])

        listener = asyncio.ensure_future(listen())
        await app.server.stop(1.0)
        await listener

    play(tmp_path, scenario)
    close, end, stranger = said
    assert isinstance(close, methods.ConnectionClose) and close.reply_code == 320
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
            client, witness = await Client.connect(app), await Client.connect(app)
            declare = methods.QueueDeclare(queue=f"q{number}", durable=True)
            client.writer.write(
                HANDSHAKE
                + frames_of([methods.ChannelOpen(), declare], 1)
                + frames_of([methods.ConnectionClose(200, "", 0, 0)])
            )
            await client.expect(methods.QueueDeclareOk)
            await client.expect(methods.ConnectionCloseOk)
            assert await client.method() is None
            rude = await Client.connect(app)
            rude.writer.write(HANDSHAKE + frames_of([methods.ChannelOpen(), declare], 1))
            rude.writer.close()  # does not even wait
            await witness.open()
            witness.writer.close()
            with suppress(ConnectionError):
                await rude.writer.wait_closed()

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
        guest = await (await Client.connect(app)).open()
        strangers = [await Client.connect(app) for _ in beginnings]
        for stranger, beginning in zip(strangers, beginnings, strict=True):
            stranger.writer.write(beginning)
        for stranger in strangers:
            while await stranger.method() is not None:
                pass
        guest.writer.write(method_frame(1, methods.BasicQos()))
        await guest.expect(methods.BasicQosOk)
        guest.writer.close()

    play(tmp_path, scenario)


def test_heartbeats_come_and_are_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "TICK_S", 0.1)

    async def scenario(app: App) -> None:
        client = await (await Client.connect(app)).open(heartbeat=1)
        assert await client.reader.readexactly(8) == HEARTBEAT_FRAME
        rest = await client.reader.read()  # until the broker has had enough of our silence
        assert rest == HEARTBEAT_FRAME * (len(rest) // 8)

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
            await (await Client.connect(app)).open()
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
        client = await (await Client.connect(app)).open()
        client.writer.write(method_frame(1, methods.QueueDeclare(queue="q")))
        client.writer.write(
            publish("q", bytes(1000)) * 5000 + publish("q", bytes(3_000_000), frame_max=131072)
        )
        client.writer.write(method_frame(1, methods.QueueDeclare(queue="q", passive=True)))
        await client.expect(methods.QueueDeclareOk)
        counted = await client.expect(methods.QueueDeclareOk)
        assert isinstance(counted, methods.QueueDeclareOk) and counted.message_count == 5001
        client.writer.close()

    play(tmp_path, scenario)


def test_beside_others_a_flood_is_read_in_pieces_and_all_get_what_is_theirs(tmp_path: Path) -> None:
    async def scenario(app: App) -> None:
        flooding = await (await Client.connect(app)).open()
        quiet = await (await Client.connect(app)).open()
        flooding.writer.write(method_frame(1, methods.QueueDeclare(queue="flood")))
        await flooding.expect(methods.QueueDeclareOk)
        flooding.writer.write(publish("flood", bytes(16)) * 40_000)
        quiet.writer.write(method_frame(1, methods.QueueDeclare(queue="quiet")))
        quiet.writer.write(method_frame(1, methods.BasicConsume(queue="quiet", no_ack=True)))
        await quiet.expect(methods.BasicConsumeOk)
        for _ in range(50):
            quiet.writer.write(publish("quiet", b"small"))
            await quiet.expect(methods.BasicDeliver)
        flooding.writer.write(method_frame(1, methods.QueueDeclare(queue="flood", passive=True)))
        counted = await flooding.expect(methods.QueueDeclareOk)
        assert isinstance(counted, methods.QueueDeclareOk) and counted.message_count == 40_000
        flooding.writer.close()
        quiet.writer.close()

    play(tmp_path, scenario)


def test_one_that_says_goodbye_and_never_reads_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol_module, "FAREWELL_S_MAX", 0.1)

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
        client = await (await Client.connect(app)).open(heartbeat=1)
        async with asyncio.timeout(30):
            assert await client.reader.readexactly(8) == HEARTBEAT_FRAME
            while await client.reader.read(8):  # until the broker has had enough of our silence
                pass

    play(tmp_path, scenario)


def test_a_client_that_asks_for_much_gets_it_all(tmp_path: Path) -> None:
    """More than one turn may put together, and while a durable declaration holds the output back."""

    async def scenario(app: App) -> None:
        client = await (await Client.connect(app)).open()
        client.writer.write(method_frame(1, methods.QueueDeclare(queue="q")))
        client.writer.write(publish("q", bytes(2_000_000), frame_max=131072))
        asked: list[methods.Method] = []
        for number in range(10):
            asked.append(methods.QueueDeclare(queue=f"durable{number}", durable=True))
            for _ in range(3):
                asked.append(methods.BasicGet(queue="q"))
                asked.append(methods.BasicNack(delivery_tag=0, multiple=True, requeue=True))
        client.writer.write(frames_of(asked, 1))
        await client.expect(methods.QueueDeclareOk)
        for number in range(10):
            declared = await client.expect(methods.QueueDeclareOk)
            assert isinstance(declared, methods.QueueDeclareOk) and declared.queue == f"durable{number}"
            for tag in range(3 * number + 1, 3 * number + 4):
                got = await client.expect(methods.BasicGetOk)
                assert isinstance(got, methods.BasicGetOk) and got.delivery_tag == tag

    play(tmp_path, scenario)


def test_what_is_durable_outlives_the_application(tmp_path: Path) -> None:
    async def before(app: App) -> None:
        client = await (await Client.connect(app)).open()
        client.writer.write(method_frame(1, methods.QueueDeclare(queue="kept", durable=True)))
        await client.expect(methods.QueueDeclareOk)
        client.writer.close()

    async def after(app: App) -> None:
        assert list(app.broker.vhosts["/"].queues) == ["kept"]

    play(tmp_path, before)
    play(tmp_path, after)
