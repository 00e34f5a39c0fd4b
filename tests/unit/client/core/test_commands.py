"""Commands: in the order of the calls, acks that stand side by side as one."""

from __future__ import annotations

import pytest

from embermq.client.core.commands import ASLEEP, AWAKE, LINGERING, ClosedQueue, Commands, ParentsQueue
from embermq.client.errors import ConnectionClosed
from embermq.wire.methods import BasicAck, BasicNack, QueuePurge
from tests.support.scripted_broker import Script, delivery, inbox


def test_acks_side_by_side_are_one() -> None:
    commands = Commands(len)
    script = Script(commands=commands)
    script.connect()
    channel = script.channel()
    other = script.channel()
    box, others = inbox(channel), inbox(other)
    script.heard()
    script.say(b"".join(delivery(1, "tag", number, b"x") for number in range(1, 10)))
    script.say(delivery(2, "tag", 1, b"y"))
    messages = box.take()
    for message in messages[:4]:
        message.ack()
    others.take()[0].ack()
    messages[4].nack()
    messages[6].ack()  # the sixth is still being worked on
    messages[7].ack()
    assert script.heard() == []
    commands.run()
    assert script.heard() == [
        (1, BasicAck(4, True)),
        (2, BasicAck(1, True)),
        (1, BasicNack(5, False, True)),
        (1, BasicAck(7)),
        (1, BasicAck(8)),
    ]


def test_the_thread_is_rung_when_it_sleeps() -> None:
    rings: list[bytes] = []
    commands = Commands(rings.append)
    commands.post(print)
    assert not rings and commands.resting == AWAKE
    for state in (LINGERING, ASLEEP):
        commands.resting = state
        commands.post(print)
        assert commands.resting == AWAKE
    assert len(rings) == 2
    commands.resting = LINGERING
    commands.hurry()
    assert len(rings) == 3 and commands.resting == AWAKE


def test_after_the_end() -> None:
    commands = Commands(len)
    commands.post(print, "left")
    left = commands.close(ClosedQueue(ConnectionClosed("over")))
    assert list(left) == [(print, ("left",))]
    with pytest.raises(ConnectionClosed, match="over"):
        commands.post(QueuePurge)
    script = Script()
    script.connect()
    commands.post(script.channel().ack, 1, False, 1)  # needs no answer
    commands.close(ParentsQueue(ConnectionClosed("the parent's")))
    with pytest.raises(ConnectionClosed, match="parent"):
        commands.post(script.channel().ack, 1, False, 1)
