"""Frames and the cutting of bodies."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embermq.wire.frame import (
    HEARTBEAT_FRAME,
    PROTOCOL_HEADER,
    content_frames,
    content_header,
    frame,
    method_frame,
)
from embermq.wire.methods import BasicAck, ChannelOpen
from embermq.wire.properties import Properties


def split(data: bytes) -> list[tuple[int, int, bytes]]:
    """Type, channel and payload of each frame."""
    frames = []
    while data:
        size = int.from_bytes(data[3:7], "big")
        assert data[7 + size] == 0xCE
        frames.append((data[0], int.from_bytes(data[1:3], "big"), data[7 : 7 + size]))
        data = data[8 + size :]
    return frames


def test_bytes_are_those_of_the_specification() -> None:
    assert bytes.fromhex("414d5150 00 00 09 01") == PROTOCOL_HEADER
    assert bytes.fromhex("08 0000 00000000 ce") == HEARTBEAT_FRAME
    assert method_frame(1, ChannelOpen()) == bytes.fromhex("01 0001 00000005 0014000a 00 ce")
    assert method_frame(513, BasicAck(7)) == bytes.fromhex("01 0201 0000000d 003c0050 0000000000000007 00 ce")
    assert frame(3, 65535, b"hi") == bytes.fromhex("03 ffff 00000002 6869 ce")
    header = content_header(2, Properties(delivery_mode=2).encode())
    assert header == bytes.fromhex("003c 0000 0000000000000002 1000 02")
    assert content_frames(1, header, b"hi", 4096) == (
        bytes.fromhex("02 0001 0000000f") + header + bytes.fromhex("ce 03 0001 00000002 6869 ce")
    )


def test_an_empty_body_has_no_frame() -> None:
    assert [kind for kind, _, _ in split(content_frames(1, content_header(0, b"\0\0"), b"", 4096))] == [2]


@given(st.binary(max_size=200), st.integers(9, 80) | st.just(0), st.integers(1, 65535))
def test_bodies_are_cut_to_frame_max(body: bytes, frame_max: int, channel: int) -> None:
    header = content_header(len(body), b"\0\0")
    head, *bodies = split(content_frames(channel, header, body, frame_max))
    assert head == (2, channel, header)
    assert all((kind, number) == (3, channel) for kind, number, _ in bodies)
    assert b"".join(payload for _, _, payload in bodies) == body
    if frame_max:
        full = frame_max - 8
        assert all(len(payload) == full for _, _, payload in bodies[:-1])
        assert all(0 < len(payload) <= full for _, _, payload in bodies)
    else:
        assert len(bodies) == bool(body)


def test_a_frame_max_that_carries_nothing_is_our_mistake() -> None:
    with pytest.raises(AssertionError):
        content_frames(1, content_header(1, b"\0\0"), b"x", 8)
