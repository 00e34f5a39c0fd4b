"""The two forms of the record codec, and the layout that both must keep; names and headers of its files."""

from __future__ import annotations

import importlib.util
import random
import struct
import zlib
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

import embermq.store.log.record as imported
import embermq.store.log.segment_file as segment_file
from embermq.store import checksum


def interpreted() -> ModuleType:
    path = Path(imported.__file__).with_name("record.py")
    spec = importlib.util.spec_from_file_location("interpreted_record", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# The imported one is compiled where the package is; then both forms are tested, else the same one twice.
CODECS = [pytest.param(imported, id="imported"), pytest.param(interpreted(), id="interpreted")]

numbers = st.integers(0, 2**64 - 1)
parts_strategy = st.lists(st.binary(max_size=3000), max_size=4).map(tuple)


@pytest.mark.parametrize("codec", CODECS)
@given(
    before=st.binary(max_size=100),
    seed=st.integers(0, 2**32 - 1),
    sequence=st.integers(0, 2**64 - 2),
    timestamp_ms=numbers,
    flags=st.integers(0, 255),
    parts=parts_strategy,
)
def test_a_record_stands_as_documented_and_comes_back(
    codec: ModuleType,
    before: bytes,
    seed: int,
    sequence: int,
    timestamp_ms: int,
    flags: int,
    parts: tuple[bytes, ...],
) -> None:
    buffer = bytearray(before)
    end = codec.put_record(buffer, len(before), seed, sequence, timestamp_ms, flags, parts)
    payload = b"".join(parts)
    rest = struct.pack("<IQQB", len(payload), sequence, timestamp_ms, flags) + payload
    assert bytes(buffer[:end]) == before + struct.pack("<I", zlib.crc32(rest, seed)) + rest
    header = codec.Header()
    data = bytes(buffer[:end])
    assert header.load(data, len(before), seed, 0, 2**64 - 1) == end
    loaded = (header.sequence, header.timestamp_ms, header.flags, header.length)
    assert loaded == (sequence, timestamp_ms, flags, len(payload))
    assert header.load(data, len(before), seed, sequence + 1, 2**64 - 1) == 0
    assert header.load(data, len(before), seed, 0, sequence) == 0
    assert header.load(data, len(before), seed ^ 1, 0, 2**64 - 1) == 0
    assert header.load(data[:-1], len(before), seed, 0, 2**64 - 1) == 0
    peeked = codec.Header()
    assert peeked.peek(data, len(before)) == peeked.peek(data[: len(before) + 25], len(before)) == end
    assert (peeked.sequence, peeked.timestamp_ms, peeked.flags, peeked.length) == loaded
    assert peeked.peek(data[: len(before) + 24], len(before)) == 0


@pytest.mark.parametrize("codec", CODECS)
@given(
    prefix=st.binary(max_size=30),
    source=st.binary(max_size=3000),
    cuts=st.lists(st.integers(-1, 3001), min_size=4, max_size=4),
    ordered=st.booleans(),
)
def test_a_record_of_spans_is_one_of_parts(
    codec: ModuleType, prefix: bytes, source: bytes, cuts: list[int], ordered: bool
) -> None:
    a, b, c, d = sorted(cuts) if ordered else cuts
    numbers = (12345, 6, 7, 1)
    spans, parts = bytearray(b"before"), bytearray(b"before")
    if not 0 <= a <= b <= c <= d <= len(source):
        with pytest.raises(IndexError):
            codec.put_spans(spans, 6, *numbers, prefix, bytearray(source), a, b, c, d)
        return
    end = codec.put_spans(spans, 6, *numbers, prefix, bytearray(source), a, b, c, d)
    assert end == codec.put_record(parts, 6, *numbers, (prefix, source[a:b], source[c:d]))
    assert spans[:end] == parts[:end]


@pytest.mark.parametrize("codec", CODECS)
@given(data=st.binary(max_size=200), position=st.integers(0, 220))
def test_garbage_is_not_a_record(codec: ModuleType, data: bytes, position: int) -> None:
    assert codec.Header().load(data, position, 12345, 0, 2**64 - 1) == 0


@pytest.mark.parametrize("codec", CODECS)
def test_records_follow_each_other_in_a_lent_buffer(codec: ModuleType) -> None:
    buffer = bytearray(b"old rubbish" * 10)
    fill = 0
    for sequence in range(50):
        fill = codec.put_record(buffer, fill, 7, sequence, 0, 1, (b"abc", b"d" * sequence))
    data = bytes(buffer[:fill])
    header = codec.Header()
    position = 0
    for sequence in range(50):
        position = header.load(data, position, 7, sequence, sequence + 1)
        assert header.length == 3 + sequence
    assert position == fill


def test_the_checksum_is_that_of_zlib_at_every_length() -> None:
    chance = random.Random(3)
    data = chance.randbytes(5000)
    for size in [*range(600), 1000, 1023, 1024, 1025, 4096, 4999]:
        for begin in (0, chance.randint(0, 1)):
            value = chance.choice([0, 0xFFFFFFFF, chance.getrandbits(32)])
            piece = data[begin : begin + size]
            assert checksum.crc32(piece, value) == zlib.crc32(piece, value)


@given(data=st.binary(max_size=400), value=st.integers(0, 2**32 - 1), repeat=st.integers(1, 40))
def test_the_checksum_is_that_of_zlib_for_anything(data: bytes, value: int, repeat: int) -> None:
    assert checksum.crc32(data * repeat, value) == zlib.crc32(data * repeat, value)


def test_headers_are_as_long_as_documented() -> None:
    assert len(segment_file.encode_segment_header(1, 2, 3)) == segment_file.SEGMENT_HEADER_SIZE
    assert len(segment_file.encode_ack_header(1, 2)) == segment_file.ACK_HEADER_SIZE
    assert len(segment_file.encode_ack_entry(1, 2, 3)) == segment_file.ACK_ENTRY_SIZE


def test_segment_names_come_back() -> None:
    name = segment_file.segment_name(2**64 - 1, 255)
    assert name == "18446744073709551615-00000000000000ff"
    assert segment_file.parse_segment_name(name) == (2**64 - 1, 255)
    for wrong in ("", "1-2", name[1:], name + "0", name.replace("f", "g"), "x" * 20 + "-" + "0" * 16):
        assert segment_file.parse_segment_name(wrong) is None
