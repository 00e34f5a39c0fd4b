"""Too much of everything that is allowed."""

from __future__ import annotations

import threading
import time

import pytest

from embermq.wire import methods
from embermq.wire.frame import (
    HEARTBEAT_FRAME,
    PROTOCOL_HEADER,
    content_frames,
    content_header,
    frame,
    method_frame,
)
from tests.hostile.conftest import RSS_BYTES_MAX, wait_until
from tests.hostile.peers import FRAME_MAX, HANDSHAKE, NO_PROPERTIES, Peer, healthy_round_trip, publish, unique
from tools.brokers import EmberBroker

MIB = 1024 * 1024


def test_a_storm_of_connections(victim: EmberBroker) -> None:
    peers = [Peer(victim) for _ in range(500)]
    try:
        for peer in peers:
            peer.send_bytes(HANDSHAKE + method_frame(1, methods.ChannelOpen()))
        for peer in peers:
            peer.expect(methods.ChannelOpenOk)
        healthy_round_trip(victim)
    finally:
        for peer in peers:
            peer.socket.close()


def test_half_open_handshakes(victim: EmberBroker) -> None:
    """Two hundred strangers stop at every place a handshake has; others log in meanwhile."""
    places = [0, 1, 4, 8, 12, 20, len(HANDSHAKE) // 2, len(HANDSHAKE) - 1]
    peers = [Peer(victim) for _ in range(200)]
    try:
        for number, peer in enumerate(peers):
            peer.send_bytes(HANDSHAKE[: places[number % len(places)]])
        healthy_round_trip(victim)
    finally:
        for peer in peers:
            peer.socket.close()


def test_strangers_who_do_not_log_in_are_shown_out(victim: EmberBroker) -> None:
    """Slow ones too: a byte now and then is no handshake; a login without connection.open is half of one."""
    with Peer(victim) as silent, Peer(victim) as slow, Peer(victim) as unopened:
        silent.send_bytes(PROTOCOL_HEADER)
        unopened.send_bytes(HANDSHAKE[: -len(method_frame(0, methods.ConnectionOpen(virtual_host="/")))])
        sent = 0
        slow.socket.setblocking(False)
        deadline = time.monotonic() + 90
        while time.monotonic() < deadline:
            try:
                sent += slow.socket.send(HANDSHAKE[sent : sent + 1])
                while slow.socket.recv(4096):
                    pass
                break
            except BlockingIOError:
                time.sleep(0.2)
            except ConnectionError:
                break
        else:
            pytest.fail("the broker listens to a stranger for ever")
        for peer in (silent, unopened):
            while peer.read_frame() is not None:
                pass


def test_thousands_of_channels(victim: EmberBroker) -> None:
    with Peer(victim) as one, Peer(victim) as two:
        for peer in (one, two):
            peer.send_bytes(HANDSHAKE)
            numbers = range(1, 2048)
            peer.send_bytes(b"".join(method_frame(number, methods.ChannelOpen()) for number in numbers))
            for _ in numbers:
                peer.expect(methods.ChannelOpenOk)
            consume = methods.BasicConsume(queue="", no_wait=True)
            declare = methods.QueueDeclare(queue="", exclusive=True, no_wait=True)
            peer.send_bytes(b"".join(method_frame(n, declare) + method_frame(n, consume) for n in numbers))
        healthy_round_trip(victim)


def test_channels_beyond_the_maximum_end_the_connection(victim: EmberBroker) -> None:
    with Peer(victim) as peer:
        peer.open()
        for number in range(2, 2048):
            peer.send(methods.ChannelOpen(), channel=number)
        peer.send(methods.ChannelOpen(), channel=5000)
        close = peer.expect(methods.ConnectionClose)
        assert isinstance(close, methods.ConnectionClose) and close.reply_code == 530


def test_a_body_in_very_many_very_small_frames(victim: EmberBroker, peer: Peer) -> None:
    queue = unique()
    peer.declare(queue, exclusive=True)
    size = 200_000
    method = method_frame(1, methods.BasicPublish(routing_key=queue))
    peer.send_bytes(method + frame(2, 1, content_header(size, NO_PROPERTIES)))
    peer.send_bytes((frame(3, 1, b"") * 20 + frame(3, 1, b"x")) * size)
    peer.send(methods.BasicGet(queue=queue, no_ack=True))
    peer.expect(methods.BasicGetOk)
    peer.read_frame()
    body = b""
    while len(body) < size:
        got = peer.read_frame()
        assert got is not None
        body += got[2]
    assert body == b"x" * size


def test_a_body_that_never_comes_to_an_end(victim: EmberBroker, peer: Peer) -> None:
    """Empty frames for ever: the broker may listen, but must not keep them."""
    method = method_frame(1, methods.BasicPublish(routing_key="nowhere"))
    peer.send_bytes(method + frame(2, 1, content_header(10, NO_PROPERTIES)))
    before = victim.rss_bytes()
    peer.send_without_waiting(frame(3, 1, b"") * 8_000_000, 4)
    assert victim.rss_bytes() - before < 32 * MIB


def test_a_header_that_never_comes(victim: EmberBroker) -> None:
    """Half a frame on each of many connections, as long as frames may be."""
    peers = [Peer(victim) for _ in range(100)]
    try:
        for peer in peers:
            peer.open()
            peer.send_bytes(method_frame(1, methods.BasicPublish(routing_key="q")))
            peer.send_bytes(b"\x02\x00\x01\x00\x01\xff\x00" + bytes(120_000))
        healthy_round_trip(victim)
    finally:
        for peer in peers:
            peer.socket.close()


# -- peers that ask and do not listen


def flooded(peer: Peer, data: bytes, seconds: float = 3.0) -> None:
    peer.send_without_waiting(data, seconds)


def test_a_publisher_that_does_not_read_its_returns(victim: EmberBroker) -> None:
    with Peer(victim, receive_buffer_bytes=4096) as peer:
        peer.open()
        flooded(peer, publish("nowhere", bytes(100_000), mandatory=True) * 3000)
        healthy_round_trip(victim)
        assert victim.rss_bytes() < RSS_BYTES_MAX


def test_small_questions_with_large_answers(victim: EmberBroker) -> None:
    """A message got and given back, over and over, in one packet; nobody reads the answers."""
    queue = unique()
    with Peer(victim) as owner:
        owner.open()
        owner.declare(queue)
        owner.send_bytes(publish(queue, bytes(5 * MIB)))
        owner.declare(queue)
        with Peer(victim, receive_buffer_bytes=4096) as peer:
            peer.open()
            get = method_frame(1, methods.BasicGet(queue=queue))
            give_back = methods.BasicNack(delivery_tag=0, multiple=True, requeue=True)
            flooded(peer, (get + method_frame(1, give_back)) * 3000)
            healthy_round_trip(victim)
            assert victim.rss_bytes() < RSS_BYTES_MAX
        owner.send(methods.QueueDelete(queue=queue))
        owner.expect(methods.QueueDeleteOk)


def test_questions_that_were_put_off_are_answered(victim: EmberBroker) -> None:
    """The same from one that does read: every answer comes, in order."""
    queue = unique()
    with Peer(victim) as peer:
        peer.open()
        peer.declare(queue, exclusive=True)
        peer.send_bytes(publish(queue, bytes(MIB)))
        get = method_frame(1, methods.BasicGet(queue=queue))
        give_back = method_frame(1, methods.BasicNack(delivery_tag=0, multiple=True, requeue=True))
        peer.send_bytes((get + give_back) * 100 + method_frame(1, methods.QueuePurge(queue=queue)))
        for number in range(1, 101):
            got = peer.expect(methods.BasicGetOk)
            assert isinstance(got, methods.BasicGetOk) and got.delivery_tag == number
        purged = peer.expect(methods.QueuePurgeOk)
        assert isinstance(purged, methods.QueuePurgeOk) and purged.message_count == 1


def test_recover_over_and_over(victim: EmberBroker) -> None:
    queue = unique()
    with Peer(victim, receive_buffer_bytes=4096) as peer:
        peer.open()
        peer.declare(queue, exclusive=True)
        peer.send(methods.BasicConsume(queue=queue))
        peer.send_bytes(publish(queue, bytes(MIB)))
        peer.expect(methods.BasicDeliver)
        flooded(peer, method_frame(1, methods.BasicRecoverAsync(requeue=False)) * 10_000)
        healthy_round_trip(victim)
        assert victim.rss_bytes() < RSS_BYTES_MAX


def test_a_consumer_that_takes_everything_and_acknowledges_nothing(victim: EmberBroker) -> None:
    queue = unique()
    with Peer(victim) as peer:
        peer.open()
        peer.declare(queue, exclusive=True)
        peer.send(methods.BasicQos(prefetch_count=65535), methods.BasicConsume(queue=queue))
        data = publish(queue, bytes(100)) * 500
        for _ in range(100):
            peer.send_bytes(data)
            for _ in range(500):
                peer.expect(methods.BasicDeliver)
    # It left without a word: its 50,000 messages went with its queue.
    wait_until(lambda: queue_is_gone(victim, queue))


def queue_is_gone(victim: EmberBroker, queue: str) -> bool:
    with Peer(victim) as peer:
        peer.open()
        peer.send(methods.QueueDeclare(queue=queue, passive=True))
        close = peer.expect(methods.ChannelClose)
        return isinstance(close, methods.ChannelClose) and close.reply_code == 404


def test_a_consumer_that_stops_reading_while_a_publisher_floods(victim: EmberBroker) -> None:
    """Depth lives on disk and output has a bound, so that memory does not follow the backlog."""
    queue = unique()
    with Peer(victim) as publisher, Peer(victim, receive_buffer_bytes=4096) as consumer:
        for peer in (publisher, consumer):
            peer.open()
        publisher.declare(queue)
        consumer.send(methods.BasicConsume(queue=queue, no_ack=True))
        consumer.expect(methods.BasicConsumeOk)
        before = victim.rss_bytes()
        # All of it on a machine with nothing else to do; a third of it is enough to show the point.
        sent = flood_in_background(publisher, publish(queue, bytes(10_000)) * 26, 300 * MIB, 100 * MIB)
        grown = victim.rss_bytes() - before
        assert sent >= 100 * MIB, "a slow consumer must not stop a publisher"
        assert grown < 200 * MIB, f"{sent // MIB} MiB published, memory grew by {grown // MIB} MiB"
        healthy_round_trip(victim)
        consumer.socket.close()
        publisher.send(methods.QueueDelete(queue=queue))
        publisher.expect(methods.QueueDeleteOk)


def flood_in_background(peer: Peer, block: bytes, total: int, enough: int) -> int:
    """Send the block again and again until the total is reached; on a slow machine, enough will do."""
    sent = [0]
    stop = threading.Event()

    def flood() -> None:
        peer.socket.settimeout(1.0)
        whole = True
        while sent[0] < total and not stop.is_set() or not whole:
            view = memoryview(block)
            while view:
                try:
                    count = peer.socket.send(view)
                except (TimeoutError, BlockingIOError):
                    if stop.is_set() and whole:
                        return
                    continue
                whole = count == len(view)
                view = view[count:]
                sent[0] += count

    thread = threading.Thread(target=flood, daemon=True)
    thread.start()
    thread.join(15)
    deadline = time.monotonic() + 60
    while thread.is_alive() and sent[0] < enough and time.monotonic() < deadline:
        thread.join(0.1)
    stop.set()
    thread.join(60)
    peer.socket.settimeout(60)
    assert not thread.is_alive(), "the broker stopped reading in the middle of a frame"
    return sent[0]


def test_a_consumer_that_sends_heartbeats_and_reads_nothing_is_dropped(victim: EmberBroker) -> None:
    """By the system's clock for unread bytes, shorter here than by default; its messages go to another."""
    queue, count = unique(), 200
    with EmberBroker(env={"EMBERMQ_LIMITS_TCP_USER_TIMEOUT_S": "1"}) as broker:
        with Peer(broker) as owner, Peer(broker, receive_buffer_bytes=4096) as deaf:
            owner.open()
            owner.declare(queue)
            owner.send_bytes(publish(queue, bytes(100_000)) * count)
            assert ready(owner, queue) == count
            before = broker.rss_bytes()
            deaf.open()
            deaf.send(methods.BasicConsume(queue=queue))

            def is_dropped() -> bool:
                deaf.send_if_heard(HEARTBEAT_FRAME)
                return "the client has taken nothing of what was sent to it" in broker.log_path.read_text()

            wait_until(is_dropped)
            wait_until(lambda: ready(owner, queue) == count)
            assert broker.rss_bytes() - before < 16 * MIB, "it held what its buffers hold, not the queue"


def test_a_body_is_held_once_however_many_consumers_do_not_read_it(victim: EmberBroker) -> None:
    name, count, body_bytes = unique(), 20, 8 * MIB
    deaf = [Peer(victim, receive_buffer_bytes=4096) for _ in range(count)]
    try:
        with Peer(victim) as owner:
            owner.open()
            owner.send(methods.ExchangeDeclare(exchange=name, type="fanout", auto_delete=True))
            owner.expect(methods.ExchangeDeclareOk)
            for number, peer in enumerate(deaf):
                queue = f"{name}.{number}"
                peer.open()
                peer.send(
                    methods.QueueDeclare(queue=queue, auto_delete=True),
                    methods.QueueBind(queue=queue, exchange=name),
                    methods.BasicConsume(queue=queue),
                )
                peer.expect(methods.BasicConsumeOk)
            before = victim.rss_bytes()
            message = methods.BasicPublish(exchange=name, routing_key="")
            header = content_header(body_bytes, NO_PROPERTIES)
            owner.send_bytes(
                method_frame(1, message) + content_frames(1, header, bytes(body_bytes), FRAME_MAX)
            )
            wait_until(lambda: all(ready(owner, f"{name}.{number}") == 0 for number in range(count)))
            assert victim.rss_bytes() - before < 6 * body_bytes, "each has a copy"
            healthy_round_trip(victim)
    finally:
        for peer in deaf:
            peer.socket.close()


def ready(peer: Peer, queue: str) -> int:
    peer.send(methods.QueueDeclare(queue=queue, passive=True))
    declared = peer.expect(methods.QueueDeclareOk)
    assert isinstance(declared, methods.QueueDeclareOk)
    return declared.message_count
