"""A reader of data directories written from docs/data-files.md alone: it imports nothing of the project.

If a test of this reader fails, either the files have changed or the page is wrong. Both need a decision.
"""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

FILE_NAME = re.compile(r"(\d{20})-([0-9a-f]{16})\.(segment|acks|index|filter)")
RECORD_HEADER = struct.Struct("<IIQQB")
PERSISTENT = 1
NOTE = 1 << 31


class Record(NamedTuple):
    sequence: int
    timestamp_ms: int
    flags: int
    payload: bytes
    position: int
    returns: int = 0  # as a note in the ack file says


class Message(NamedTuple):
    log: str
    record: Record
    priority: int
    exchange: str
    routing_key: str
    body: bytes


class Segment:
    def __init__(self, path: Path, is_last: bool) -> None:
        name = FILE_NAME.fullmatch(path.name)
        assert name, path
        self.path = path
        self.data = data = path.read_bytes()
        magic, version, reserved, self.first, identity, self.created_ms, checksum = struct.unpack_from(
            "<8sHHQQQI", data
        )
        assert (magic, version, reserved) == (b"EMBRSEGM", 1, 0)
        assert checksum == zlib.crc32(data[:36])
        assert (self.first, identity) == (int(name[1]), int(name[2], 16))
        self.identity = data[20:28]
        self.seed = zlib.crc32(self.identity)
        self.records = list(self._records())
        end = self.records[-1].position + 25 + len(self.records[-1].payload) if self.records else 40
        assert not any(data[end:]), f"{path}: what follows the records is no room"
        self.room = len(data) - end
        assert is_last or not self.room, path
        self.gone, self.notes = self._acks()

    def beside(self, suffix: str) -> Path:
        return self.path.with_suffix(f".{suffix}")

    def _records(self) -> Iterator[Record]:
        position, low = 40, self.first
        while position + 25 <= len(self.data):
            checksum, length, sequence, timestamp_ms, flags = RECORD_HEADER.unpack_from(self.data, position)
            end = position + 25 + length
            if end > len(self.data) or zlib.crc32(self.data[position + 4 : end], self.seed) != checksum:
                return
            assert sequence >= low
            yield Record(sequence, timestamp_ms, flags, self.data[position + 25 : end], position)
            position, low = end, sequence + 1

    def _acks(self) -> tuple[list[range], dict[int, int]]:
        gone: list[range] = []
        notes: dict[int, int] = {}
        if not self.beside("acks").exists():
            return gone, notes
        data = self.beside("acks").read_bytes()
        magic, version, reserved, first = struct.unpack_from("<8sHHQ", data)
        assert (magic, version, reserved, first) == (b"EMBRACKS", 1, 0, self.first)
        assert data[20:28] == self.identity
        assert data[28:32] == zlib.crc32(data[:28]).to_bytes(4, "little")
        assert (len(data) - 32) % 16 == 0
        for position in range(32, len(data), 16):
            sequence, count, checksum = struct.unpack_from("<QII", data, position)
            assert checksum == zlib.crc32(data[position : position + 12], self.seed)
            if count & NOTE:
                notes[sequence] = count ^ NOTE
            else:
                gone.append(range(sequence, sequence + count))
        return gone, notes

    def live(self) -> Iterator[Record]:
        """What a start would find: persistent, and not done with."""
        for record in self.records:
            if record.flags & PERSISTENT and not any(record.sequence in run for run in self.gone):
                yield record._replace(returns=self.notes.get(record.sequence, record.flags >> 1))

    def check_index(self) -> None:
        """Everything that the index says of the segment is so."""
        data = self.beside("index").read_bytes()
        head = struct.unpack_from("<8sHHQQQQQQIII", data)
        magic, version, reserved, first, identity, size, count, last, time_max, entries, crc, checksum = head
        assert (magic, version, reserved, first) == (b"EMBRINDX", 1, 0, self.first)
        assert identity.to_bytes(8, "little") == self.identity
        assert checksum == zlib.crc32(data[:68])
        assert crc == zlib.crc32(data[72:])
        assert (size, count, last) == (len(self.data), len(self.records), self.records[-1].sequence)
        assert time_max == max(record.timestamp_ms for record in self.records)
        assert len(data) == 72 + 24 * entries
        places = {record.position: record for record in self.records}
        at = 0
        for sequence, position, before_ms in struct.iter_unpack("<QQQ", data[72:]):
            assert position >= at
            assert places[position].sequence == sequence
            earlier = [record.timestamp_ms for record in self.records if record.position < position]
            assert before_ms == max(earlier, default=0)
            at = position + 1

    def filter_has(self, value: bytes) -> bool:
        data = self.beside("filter").read_bytes()
        magic, version, _, first = struct.unpack_from("<8sHHQ", data)
        assert (magic, version, first, len(data)) == (b"EMBRFILT", 1, self.first, 4128)
        assert data[20:28] == self.identity
        assert data[28:32] == zlib.crc32(data[:28], zlib.crc32(data[32:])).to_bytes(4, "little")
        numbers = struct.unpack("<4I", hashlib.blake2b(value, digest_size=16).digest())
        bits = [number % 32768 for number in numbers]
        return all(data[32 + bit // 8] >> bit % 8 & 1 for bit in bits)

    def filter_flags(self) -> int:
        return int.from_bytes(self.beside("filter").read_bytes()[10:12], "little")


def segments(log: Path) -> list[Segment]:
    """In order; nothing else is in the directory but what belongs to them."""
    paths = sorted(log.glob("*.segment"))
    stems = {path.stem for path in paths}
    for path in log.iterdir():
        if path.name == "queue.json":
            continue
        assert FILE_NAME.fullmatch(path.name) and path.stem in stems, path
    found = [Segment(path, path == paths[-1]) for path in paths]
    sequences = [record.sequence for segment in found for record in segment.records]
    assert sequences == sorted(set(sequences))
    return found


def live(log: Path) -> list[Record]:
    return [record for segment in segments(log) for record in segment.live()] if log.exists() else []


def message(log: str, record: Record, payload: bytes) -> Message:
    header_size, priority = struct.unpack_from("<IB", payload)
    position = 5
    names = []
    for _ in range(2):
        end = position + 1 + payload[position]
        names.append(payload[position + 1 : end].decode())
        position = end
    header, body = payload[position : position + header_size], payload[position + header_size :]
    content_class, weight, body_size = struct.unpack_from(">HHQ", header)
    assert (content_class, weight, body_size) == (60, 0, len(body))
    return Message(log, record, priority, names[0], names[1], body)


class DataDirectory:
    def __init__(self, path: Path) -> None:
        self.path = path
        assert (path / "VERSION").read_bytes() == b"embermq data 1\n"
        connection = sqlite3.connect(path / "definitions.sqlite")
        assert connection.execute("PRAGMA user_version").fetchone() == (2,)
        assert connection.execute("PRAGMA application_id").fetchone() == (0x454D4252,)
        self.definitions: dict[tuple[str, str, str], Any] = {
            (kind, vhost, name): json.loads(body)
            for kind, vhost, name, body in connection.execute(
                "SELECT kind, vhost, name, body FROM definition"
            )
        }
        connection.close()

    def logs(self, queue: str) -> list[Path]:
        """Of the higher priorities first."""
        queue_id = self.definitions["queue", "/", queue]["id"]
        parts = [f".p{level:03}" for level in range(255, 0, -1)] + [".high", ""]
        return [self.path / "queues" / f"{queue_id}{part}" for part in parts]

    def messages(self, queue: str) -> list[Message]:
        return [message(log.name, record, record.payload) for log in self.logs(queue) for record in live(log)]

    def delayed(self) -> list[tuple[int, int, str, bytes]]:
        """(time it is due, number, destination, body) of what waits, in the order that it is due."""
        prefix = "delayed-" + hashlib.sha256(b"/").hexdigest()[:32]
        found = {}
        for log in (self.path / "queues").glob(f"{prefix}.*"):
            assert re.fullmatch(r"(head|run)-\w+", log.name.removeprefix(f"{prefix}.")), log
            for record in live(log):
                number, _, _, keys = struct.unpack_from("<QIQH", record.payload)
                position = 22
                texts = []
                for _ in range(1 + keys):
                    (size,) = struct.unpack_from("<H", record.payload, position)
                    texts.append(record.payload[position + 2 : position + 2 + size].decode())
                    position += 2 + size
                body = message(log.name, record, record.payload[position:]).body
                found[number] = (record.timestamp_ms, number, texts[0], body)
        return sorted(found.values())

    def identities(self, queue: str) -> list[tuple[bytes, int, int]]:
        """(hash, sequence, level) in the order in which they came."""
        queue_id = self.definitions["queue", "/", queue]["id"]
        records = live(self.path / "queues" / f"{queue_id}.ids")
        for record in records:
            assert len(record.payload) == 26
        return [struct.unpack("<16sQH", record.payload) for record in records]
