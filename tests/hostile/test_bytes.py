"""Bytes that are no conversation, and conversations that went wrong on the way."""

from __future__ import annotations

import random
import struct

import pytest

from embermq.wire import methods
from embermq.wire.frame import PROTOCOL_HEADER, content_header, frame, method_frame
from tests.hostile.peers import HANDSHAKE, NO_PROPERTIES, Peer, publish, raw_method, unique
from tools.brokers import EmberBroker

SEEDS = range(12)


def conversation(queue: str) -> bytes:
    """Something of everything."""
    ms: list[methods.Method] = [
        methods.ChannelOpen(),
        methods.ConfirmSelect(),
        methods.QueueDeclare(
            queue=queue, exclusive=True, arguments={"x-max-length": 10, "t": {"a": [1, None]}}
        ),
        methods.ExchangeDeclare(exchange=f"{queue}.x", type="topic", auto_delete=True),
        methods.QueueBind(queue=queue, exchange=f"{queue}.x", routing_key="a.#", arguments={"k": "v"}),
        methods.BasicQos(prefetch_count=5),
        methods.BasicConsume(queue=queue, consumer_tag="tag"),
    ]
    after: list[methods.Method] = [
        methods.BasicAck(delivery_tag=1, multiple=False),
        methods.BasicNack(delivery_tag=2, multiple=True, requeue=True),
        methods.BasicGet(queue=queue),
        methods.BasicRecover(requeue=True),
        methods.BasicCancel(consumer_tag="tag"),
        methods.QueuePurge(queue=queue),
        methods.QueueDelete(queue=queue),
        methods.ChannelClose(200, "bye", 0, 0),
    ]
    return b"".join(
        [
            *(method_frame(1, method) for method in ms),
            *(publish(queue, bytes(size), mandatory=True, frame_max=4096) for size in (0, 1, 100, 9000)),
            *(method_frame(1, method) for method in after),
            method_frame(0, methods.ConnectionClose(200, "bye", 0, 0)),
        ]
    )


def mutated(data: bytes, chance: random.Random) -> bytes:
    result = bytearray(data)
    for _ in range(chance.choice([1, 1, 2, 5, 30])):
        at = chance.randrange(len(result))
        match chance.randrange(5):
            case 0:
                result[at] = chance.randrange(256)
            case 1:
                result[at] ^= 1 << chance.randrange(8)
            case 2:
                del result[at : at + chance.randint(1, 20)]
            case 3:
                result[at:at] = chance.randbytes(chance.randint(1, 20))
            case 4:
                start = chance.randrange(len(result))
                result[at:at] = result[start : start + chance.randint(1, 200)]
    return bytes(result)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_bytes(victim: EmberBroker, seed: int) -> None:
    chance = random.Random(seed)
    for before in (b"", PROTOCOL_HEADER, HANDSHAKE, HANDSHAKE + method_frame(1, methods.ChannelOpen())):
        for _ in range(5):
            with Peer(victim) as peer:
                peer.send_if_heard(before + chance.randbytes(chance.randint(1, 3000)))


@pytest.mark.parametrize("seed", SEEDS)
def test_mutations_of_a_handshake(victim: EmberBroker, seed: int) -> None:
    chance = random.Random(1000 + seed)
    for _ in range(20):
        with Peer(victim) as peer:
            peer.send_if_heard(mutated(HANDSHAKE, chance))


@pytest.mark.parametrize("seed", SEEDS)
def test_mutations_of_a_conversation(victim: EmberBroker, seed: int) -> None:
    chance = random.Random(2000 + seed)
    for _ in range(25):
        data = mutated(conversation(unique()), chance)
        with Peer(victim) as peer:
            peer.send_if_heard(HANDSHAKE)
            cuts = sorted(chance.randrange(len(data)) for _ in range(3))
            for start, stop in zip([0, *cuts], [*cuts, len(data)], strict=True):
                peer.send_if_heard(data[start:stop])
            peer.wait_for_end()


@pytest.mark.parametrize("seed", SEEDS)
def test_methods_with_random_arguments(victim: EmberBroker, seed: int) -> None:
    chance = random.Random(3000 + seed)
    ids = sorted(methods.METHODS)
    for _ in range(40):
        method_id = chance.choice(ids)
        octets = [0, 0, 1, 2, 255, chance.randrange(256)]
        arguments = bytes(chance.choice(octets) for _ in range(chance.randint(0, 40)))
        channel = chance.choice([0, 1, 1, 1, 2])
        with Peer(victim) as peer:
            peer.open()
            peer.send_if_heard(raw_method(channel, method_id >> 16, method_id & 0xFFFF, arguments))
            peer.send_if_heard(method_frame(0, methods.ConnectionClose(200, "", 0, 0)))
            peer.wait_for_end()


@pytest.mark.parametrize("durable", [False, True])
def test_names_that_are_no_text(peer: Peer, durable: bool) -> None:
    """Names are octets to AMQP. Whether they are taken or refused: the broker knows what it does."""
    name = b"\xff\xfe\x00" + unique().encode()
    short = bytes([len(name)]) + name
    flags = b"\x02" if durable else b"\x00"
    peer.send_bytes(raw_method(1, 50, 10, b"\0\0" + short + flags + b"\0\0\0\0"))
    peer.send_bytes(raw_method(1, 40, 10, b"\0\0" + short + b"\x06direct" + flags + b"\0\0\0\0"))
    peer.send_bytes(raw_method(1, 50, 20, b"\0\0" + short + short + short + b"\0" + b"\0\0\0\0"))
    peer.send_bytes(raw_method(1, 50, 40, b"\0\0" + short + b"\0"))
    peer.send_bytes(raw_method(1, 40, 20, b"\0\0" + short + b"\0"))
    peer.send(methods.ConnectionClose(200, "", 0, 0), channel=0)
    peer.wait_for_end()


def nested_table(depth: int) -> bytes:
    inner = b""
    for _ in range(depth):
        inner = b"\x01aF" + struct.pack(">I", len(inner)) + inner
    return struct.pack(">I", len(inner)) + inner


def nested_array(depth: int) -> bytes:
    inner = b""
    for _ in range(depth):
        inner = b"A" + struct.pack(">I", len(inner)) + inner
    inner = b"\x01a" + inner
    return struct.pack(">I", len(inner)) + inner


@pytest.mark.parametrize("table", [nested_table(15_000), nested_array(20_000)], ids=["tables", "arrays"])
def test_deep_nesting(victim: EmberBroker, table: bytes) -> None:
    assert len(table) < 131072 - 200
    with Peer(victim) as peer:
        peer.open()
        peer.send_bytes(raw_method(1, 50, 10, b"\0\0\x01q\x00" + table))
        peer.wait_for_end()
    with Peer(victim) as peer:
        peer.open()
        header = content_header(0, b"\x20\x00" + table)
        peer.send_bytes(method_frame(1, methods.BasicPublish(routing_key="q")) + frame(2, 1, header))
        peer.wait_for_end()
    with Peer(victim) as peer:
        response = b"\x08AMQPLAIN" + struct.pack(">I", len(table)) + table + b"\x05en_US"
        peer.send_bytes(PROTOCOL_HEADER + raw_method(0, 10, 11, b"\0\0\0\0" + response))
        peer.wait_for_end()


@pytest.mark.parametrize("size", [2**64 - 1, 2**63, 2**40, 128 * 1024 * 1024 + 1, 128 * 1024 * 1024])
def test_huge_announced_bodies(victim: EmberBroker, size: int) -> None:
    with Peer(victim) as peer:
        peer.open()
        for channel in range(2, 100):
            peer.send_if_heard(method_frame(channel, methods.ChannelOpen()))
            publishing = method_frame(channel, methods.BasicPublish(routing_key="nowhere"))
            peer.send_if_heard(publishing + frame(2, channel, content_header(size, NO_PROPERTIES)))
            peer.send_if_heard(frame(3, channel, b"a little of it"))
