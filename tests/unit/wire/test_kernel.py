"""The kernel's two forms say the same, byte by byte and error by error."""

from __future__ import annotations

import importlib.util
import random
import struct
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

import embermq.wire.kernel as imported
from embermq.wire.frame import content_frames, content_header, frame
from embermq.wire.properties import Properties
from embermq.wire.table import encode_table


def interpreted() -> ModuleType:
    path = Path(imported.__file__).with_name("kernel.py")
    spec = importlib.util.spec_from_file_location("interpreted_wire_kernel", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TWIN = interpreted()
# The imported one is compiled where the package is; then both forms are tested, else the same one twice.
KERNELS = [pytest.param(imported, id="imported"), pytest.param(TWIN, id="interpreted")]

buffers = st.binary(max_size=40).map(bytearray)
positions = st.integers(-3, 45)
channels = st.integers(0, 65535)
tags = st.integers(0, 2**64 - 1)
contents = st.binary(max_size=300)


def outcome(function: Callable[..., object], *arguments: object) -> tuple[str, object]:
    """What came of a call: its result, or the kind and text of its error."""
    try:
        return "result", function(*arguments)
    except (IndexError, OverflowError, ValueError) as error:
        return type(error).__name__, str(error)


@given(buf=buffers, pos=positions)
def test_loads_agree(buf: bytearray, pos: int) -> None:
    for name, size in (("load_u16", 2), ("load_u32", 4), ("load_u64", 8)):
        got = outcome(getattr(imported, name), buf, pos)
        assert got == outcome(getattr(TWIN, name), buf, pos)
        if 0 <= pos <= len(buf) - size:
            assert got == ("result", int.from_bytes(buf[pos : pos + size], "big"))
        else:
            assert got[0] == "IndexError"


@given(buf=buffers, start=positions, stop=positions)
def test_cuts_agree(buf: bytearray, start: int, stop: int) -> None:
    got = outcome(imported.cut, buf, start, stop)
    assert got == outcome(TWIN.cut, buf, start, stop)
    inside = 0 <= start <= stop <= len(buf)
    assert got == ("result", bytes(buf[start:stop])) if inside else got[0] == "IndexError"


@given(buf=buffers, places=st.tuples(positions, positions, positions, positions))
def test_joins_agree(buf: bytearray, places: tuple[int, int, int, int]) -> None:
    got = outcome(imported.join, buf, *places)
    assert got == outcome(TWIN.join, buf, *places)
    a, b, c, d = places
    inside = 0 <= a <= b <= len(buf) and 0 <= c <= d <= len(buf)
    assert got == ("result", bytes(buf[a:b] + buf[c:d])) if inside else got[0] == "IndexError"


@given(buf=buffers, pos=positions, size=st.integers(0, 10), other=st.binary(max_size=5))
def test_comparisons_agree(buf: bytearray, pos: int, size: int, other: bytes) -> None:
    for expected in (bytes(buf[max(pos, 0) : max(pos, 0) + size]), other):
        got = imported.same(buf, pos, expected)
        assert got == TWIN.same(buf, pos, expected)
        fits = pos >= 0 and pos + len(expected) <= len(buf)
        assert got == (fits and buf[pos : pos + len(expected)] == expected)


@given(
    before=st.binary(max_size=9),
    body=st.binary(max_size=40),
    size_max=st.integers(0, 50),
    cut=st.integers(0, 3),
    spoilt=st.none() | st.integers(0, 120),
)
def test_ends_of_bodies_agree(
    before: bytes, body: bytes, size_max: int, cut: int, spoilt: int | None
) -> None:
    """A message is whole and like the one before it, but for the size of its body; or it is not."""
    properties = Properties(content_type="x").encode()
    heads = [
        frame(1, 5, b"method") + frame(2, 5, content_header(size, properties)) + b"\x03\x00\x05"
        for size in (77, len(body))
    ]
    message = heads[1] + len(body).to_bytes(4, "big") + body + b"\xce"
    buf = bytearray(before + message)
    if spoilt is not None and spoilt < len(message):
        buf[len(before) + spoilt] ^= 1
    end = len(buf) - cut
    arguments = (buf, len(before), end, heads[0], len(frame(1, 5, b"method")) + 7 + 4, size_max)
    got = imported.body_end(*arguments)
    assert got == TWIN.body_end(*arguments)
    in_body = spoilt is not None and len(heads[1]) + 4 <= spoilt < len(message) - 1
    sound = spoilt is None or spoilt >= len(message) or in_body
    whole = cut == 0 and 0 < len(body) <= size_max
    assert got == (len(buf) - 1 if sound and whole else 0)


@given(buf=buffers, at=positions, end=positions, head=contents, size_at=positions)
def test_no_place_is_too_odd_to_ask_about(
    buf: bytearray, at: int, end: int, head: bytes, size_at: int
) -> None:
    asked = (buf, at, end, head[:20], size_at, 100)
    assert imported.body_end(*asked) == TWIN.body_end(*asked)


# -- output

writes = st.tuples(st.just("write"), contents)
acks = st.tuples(st.just("put_ack"), channels, tags, st.booleans())
bodies = st.tuples(st.just("put_content"), channels, contents, st.integers(-1, 310), st.integers(7, 100))
deliveries = st.tuples(
    st.just("put_delivery"),
    contents,
    tags,
    st.booleans(),
    contents,
    channels,
    contents,
    st.integers(-1, 310),
    st.integers(7, 100),
)
stored = st.tuples(
    st.just("put_stored_delivery"),
    contents,
    tags,
    channels,
    contents,
    st.integers(-1, 40),
    st.integers(-1, 60),
    st.integers(0, 310),
    st.integers(0, 60),
    contents,
    tags,
    st.integers(7, 100),
)
publishes = st.tuples(st.just("put_publish"), channels, contents, contents, contents, st.integers(7, 100))
blocks = st.tuples(
    st.just("put_block"),
    contents,
    tags,
    contents,
    channels,
    contents,
    contents,
    st.integers(-1, 310),
    st.integers(-1, 310),
    st.integers(7, 100),
)
takes = st.tuples(st.just("take_pieces"))


@given(steps=st.lists(writes | acks | bodies | deliveries | stored | publishes | blocks | takes, max_size=12))
def test_outputs_agree(steps: list[tuple[object, ...]]) -> None:
    ours, twin = imported.Output(), TWIN.Output()
    for name, *arguments in steps:
        got = outcome(getattr(ours, str(name)), *arguments)
        assert got == outcome(getattr(twin, str(name)), *arguments)
        assert ours.size == twin.size == len(ours) == len(twin)
        assert ours.pieces == twin.pieces and ours.pieces_size == twin.pieces_size
    assert ours.take_pieces() == twin.take_pieces()
    assert ours.take() == twin.take() == b""


@pytest.mark.parametrize("kernel", KERNELS)
@given(channel=channels, content=contents, frame_max=st.integers(9, 100), data=st.data())
def test_content_stands_as_the_specification_says(
    kernel: ModuleType, channel: int, content: bytes, frame_max: int, data: st.DataObject
) -> None:
    header_size = data.draw(st.integers(0, len(content)))
    output = kernel.Output()
    output.put_content(channel, content, header_size, frame_max)
    assert output.take() == content_frames(channel, content[:header_size], content[header_size:], frame_max)


@pytest.mark.parametrize("kernel", KERNELS)
@given(channel=channels, method=contents, properties=contents, body=contents, frame_max=st.integers(9, 100))
def test_publishes_stand_as_the_specification_says(
    kernel: ModuleType, channel: int, method: bytes, properties: bytes, body: bytes, frame_max: int
) -> None:
    output = kernel.Output()
    output.put_publish(channel, method, properties, body, frame_max)
    header = content_header(len(body), properties)
    expected = frame(1, channel, method) + content_frames(channel, header, body, frame_max)
    assert output.take() == expected


@pytest.mark.parametrize("kernel", KERNELS)
@given(channel=channels, tag=tags, flag=st.booleans(), prefix=contents, names=contents)
def test_acks_and_deliveries_stand_as_the_specification_says(
    kernel: ModuleType, channel: int, tag: int, flag: bool, prefix: bytes, names: bytes
) -> None:
    output = kernel.Output()
    output.put_ack(channel, tag, flag)
    assert output.take() == frame(1, channel, struct.pack(">HHQB", 60, 80, tag, flag))
    output.put_delivery(prefix, tag, flag, names, channel, b"header", 6, 4096)
    expected = frame(1, channel, prefix + struct.pack(">QB", tag, flag) + names) + frame(
        2, channel, b"header"
    )
    assert output.take() == expected


@pytest.mark.parametrize("kernel", KERNELS)
@given(
    content_type=st.none() | st.text(max_size=20),
    content_encoding=st.none() | st.text(max_size=20),
    headers=st.none() | st.dictionaries(st.text(max_size=10), st.integers(0, 1000), max_size=4),
    app_id=st.none() | st.text(max_size=20),
    body=st.binary(max_size=200),
    number=st.integers(0, 2**63 - 1),
)
def test_a_stored_delivery_has_one_header_more(
    kernel: ModuleType,
    content_type: str | None,
    content_encoding: str | None,
    headers: dict[str, object] | None,
    app_id: str | None,
    body: bytes,
    number: int,
) -> None:
    properties = Properties(
        content_type=content_type, content_encoding=content_encoding, headers=headers, app_id=app_id
    )
    header = struct.pack(">HHQ", 60, 0, len(body)) + properties.encode()
    names = b"\x01e\x03key"
    block = b"before" + names + header + body + b"behind"
    output = kernel.Output()
    begin, stop = 6 + len(names), len(block) - 6
    field = b"\x0fx-stream-offsetl"
    output.put_stored_delivery(b"prefix", 7, 3, block, 6, begin, stop, len(header), field, number, 4096)
    encoded = encode_table({**(headers or {}), "x-stream-offset": 2**40})[:-8] + number.to_bytes(8, "big")
    properties.headers = None
    plain = properties.encode()
    at = 2 + sum(1 + len(text.encode()) for text in (content_type, content_encoding) if text is not None)
    flags = (int.from_bytes(plain[:2], "big") | 0x2000).to_bytes(2, "big")
    expected = header[:12] + flags + plain[2:at] + encoded + plain[at:]
    assert output.take() == (
        frame(1, 3, b"prefix" + struct.pack(">QB", 7, False) + names)
        + content_frames(3, expected, body, 4096)
    )


@pytest.mark.parametrize("kernel", KERNELS)
@given(block=contents, frame_max=st.integers(9, 100), data=st.data())
def test_a_block_stays_where_it_is(
    kernel: ModuleType, block: bytes, frame_max: int, data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, len(block)))
    stop = data.draw(st.integers(start, len(block)))
    output = kernel.Output()
    output.write(b"before")
    output.put_block(b"prefix", 7, b"names", 3, b"fields", block, start, stop, frame_max)
    output.write(b"behind")
    assert output.pieces_size == stop - start
    with pytest.raises(AssertionError):
        output.take()
    pieces = output.take_pieces()
    header = content_header(stop - start, b"\x20\x00\x00\x00\x00\x06fields")
    assert b"".join(pieces) == (
        b"before"
        + frame(1, 3, b"prefix" + struct.pack(">QB", 7, False) + b"names")
        + content_frames(3, header, block[start:stop], frame_max)
        + b"behind"
    )
    assert all(piece.obj is block for piece in pieces[1::2])
    assert output.pieces is None and output.pieces_size == output.size == 0


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("frame_max", [4096, 131_072])
@pytest.mark.parametrize("body_bytes", [TWIN.STAYS_BYTES_MIN - 1, TWIN.STAYS_BYTES_MIN, 300_000])
def test_a_large_body_to_deliver_is_not_copied(kernel: ModuleType, frame_max: int, body_bytes: int) -> None:
    """As it stands in a message, and in a block of a stream; what is published is always copied."""
    body, names, field = random.Random(body_bytes).randbytes(body_bytes), b"\x00\x03key", b"\x01xl"
    header = content_header(body_bytes, b"\x00\x00")
    content = header + body
    output = kernel.Output()
    output.put_delivery(b"prefix", 7, True, names, 3, content, len(header), frame_max)
    stays = body_bytes >= TWIN.STAYS_BYTES_MIN
    assert output.pieces_size == (body_bytes if stays else 0)
    pieces = output.take_pieces()
    assert b"".join(pieces) == (
        frame(1, 3, b"prefix" + struct.pack(">QB", 7, True) + names)
        + content_frames(3, header, body, frame_max)
    )
    assert all(piece.obj is content for piece in pieces[1::2])
    block = names + content + b"behind"
    at, stop = len(names), len(names) + len(content)
    output.put_stored_delivery(b"prefix", 7, 3, block, 0, at, stop, len(header), field, 5, frame_max)
    assert output.pieces_size == (body_bytes if stays else 0)
    pieces = output.take_pieces()
    with_field = content_header(body_bytes, b"\x20\x00" + struct.pack(">I3sQ", 11, field, 5))
    assert b"".join(pieces) == (
        frame(1, 3, b"prefix" + struct.pack(">QB", 7, False) + names)
        + content_frames(3, with_field, body, frame_max)
    )
    assert all(piece.obj is block for piece in pieces[1::2])
    output.put_publish(3, b"method", b"\x00\x00", body, frame_max)
    assert output.take() == frame(1, 3, b"method") + content_frames(3, header, body, frame_max)


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_refused_content_leaves_no_half_delivery(kernel: ModuleType) -> None:
    output = kernel.Output()
    output.write(b"before")
    with pytest.raises(IndexError):
        output.put_delivery(b"prefix", 1, False, b"names", 1, b"content", 8, 4096)
    with pytest.raises(IndexError):
        output.put_content(1, b"content", 0, 8)
    assert (output.size, output.take()) == (6, b"before")


@pytest.mark.parametrize("kernel", KERNELS)
def test_output_grows_and_starts_anew(kernel: ModuleType) -> None:
    output = kernel.Output()
    assert output.take() == b""
    for _ in range(3):
        pieces = [bytes([number % 256]) * number for number in range(1500)]
        for piece in pieces:
            output.write(piece)
        assert output.size == sum(map(len, pieces))
        assert output.take() == b"".join(pieces)
        assert output.size == 0


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("size", [0, 10, 70_000, 300_000, 2_000_000])
def test_what_is_lent_stays_as_it_is_while_somebody_looks(kernel: ModuleType, size: int) -> None:
    output = kernel.Output()
    kept: list[tuple[bytes, memoryview]] = []
    for letter in b"abcdefgh":
        expected = bytes([letter]) * size + b"."
        output.write(expected[:-1])
        output.write(b".")
        view = output.lend()
        assert len(output) == 0
        assert view == expected
        if letter in b"acf":  # the others are gone before the next
            kept.append((expected, view[:-1]))
        del view
    for expected, part in kept:
        assert part == expected[:-1]
    output.write(b"end")
    assert output.take() == b"end"
    assert output.take() == b""
    assert output.lend() == b""
