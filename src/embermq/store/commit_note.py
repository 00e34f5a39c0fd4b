"""Commit counter of the definitions, in a file of its own beside the database.

SQLite takes a damaged or shortened WAL for one that ends earlier, and an older copy of the database for the
database: both are sound in themselves. The note, written behind every commit, is what they are held against.
It may be behind the database by what was committed last, so it is neither synced before a client is answered
nor missed when a power cut has taken it; a database that is behind the note has lost commits.

    DIR/definitions.commits: two slots, at 0 and 512; what was synced is never overwritten by what was not

    0  8  "EMBRCMTS"          16  8  count of commits      32  8  boot: 0, or the only boot of the machine
    8  8  identity (random)   24  8  sum of the rows              in which the note counts (`sync = "os"`)
                                                           40  4  CRC-32 of bytes 0 to 39

The sum is that of the first 8 bytes of each row's BLAKE2b hash, modulo 2^64: a row that came or went changes
it without a look at the others.
"""

from __future__ import annotations

import contextlib
import hashlib
import struct
import zlib
from dataclasses import dataclass

from embermq.store.disk.filesystem import File, FileSystem, read_all, write_all

SUFFIX = ".commits"
MAGIC = b"EMBRCMTS"
SLOT = struct.Struct("<8sQQQQ")
CHECKSUM = struct.Struct("<I")
SLOT_BYTES = 512
SLOTS = 2
SUM_MASK = (1 << 64) - 1
SYNCED_FIRST = 0  # in place of a boot: the commits were on disk before they were noted
BOOT_ID = "/proc/sys/kernel/random/boot_id"


@dataclass(frozen=True)
class Commits:
    """The state of a database: which one it is, how often it was changed, what its rows add up to."""

    identity: int
    count: int
    sum: int


def row_hash(kind: str, vhost: str, name: str, body: str) -> int:
    text = f"{kind}\0{vhost}\0{name}\0{body}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


def note_path(definitions: str) -> str:
    return definitions.removesuffix(".sqlite") + SUFFIX


def this_boot() -> int:
    """A number that another boot of the machine does not have; 0 where nothing tells."""
    try:
        with open(BOOT_ID) as file:
            return int(file.read().replace("-", "")[:16], 16)
    except (OSError, ValueError):
        return 0


def read_note(definitions: str, filesystem: FileSystem) -> Commits | None:
    """What the database must have at least; None if nothing is noted that counts."""
    found = _slots(definitions, filesystem)
    commits, boot, _ = max(found, key=lambda slot: slot[0].count, default=(None, 0, 0))
    return commits if boot in (SYNCED_FIRST, this_boot()) else None


def lost_note(definitions: str, filesystem: FileSystem) -> str:
    """Why nothing can be held against a database that has had commits; empty if something can."""
    if _slots(definitions, filesystem):
        return ""
    path = note_path(definitions)
    state = "damaged" if filesystem.exists(path) else "missing"
    return f"{path} is {state}: nothing tells whether {definitions} has all that was committed to it"


def _slots(definitions: str, filesystem: FileSystem) -> list[tuple[Commits, int, int]]:
    """(commits, boot, number) of the slots that are whole."""
    path = note_path(definitions)
    if not filesystem.exists(path):
        return []
    data = read_all(filesystem, filesystem.open(path, writable=False))
    found = []
    for number in range(SLOTS):
        slot = data[number * SLOT_BYTES :][: SLOT.size + CHECKSUM.size]
        if len(slot) == SLOT.size + CHECKSUM.size:
            magic, identity, count, total, boot = SLOT.unpack_from(slot)
            if magic == MAGIC and CHECKSUM.unpack_from(slot, SLOT.size)[0] == zlib.crc32(slot[: SLOT.size]):
                found.append((Commits(identity, count, total), boot, number))
    return found


class CommitNote:
    """The file, open for writing. A disk that refuses it only makes the note older than it could be."""

    def __init__(self, definitions: str, filesystem: FileSystem, synchronous: bool) -> None:
        self.filesystem = filesystem
        self.boot = SYNCED_FIRST if synchronous else this_boot()
        self.unsynced = False
        newest = max(_slots(definitions, filesystem), key=lambda slot: slot[0].count, default=None)
        self.slot = 0 if newest is None else (newest[2] + 1) % SLOTS  # the newest is not overwritten
        path = note_path(definitions)
        self.file: File | None = None
        with contextlib.suppress(OSError):
            if filesystem.exists(path):
                self.file = filesystem.open(path)
            else:
                self.file = filesystem.open(path, create=True)
                write_all(filesystem, self.file, bytes(SLOTS * SLOT_BYTES), 0)  # so that a full disk has room

    def write(self, commits: Commits) -> None:
        """They are done; where syncs are wanted, they are on disk."""
        if self.file is not None:
            data = SLOT.pack(MAGIC, commits.identity, commits.count, commits.sum, self.boot)
            data += CHECKSUM.pack(zlib.crc32(data))
            with contextlib.suppress(OSError):
                write_all(self.filesystem, self.file, data, self.slot * SLOT_BYTES)
                self.unsynced = True

    def sync(self) -> None:
        """Now and then; from here on the other slot is written."""
        if self.unsynced and self.file is not None and self.boot == SYNCED_FIRST:
            with contextlib.suppress(OSError):
                self.filesystem.sync(self.file)
                self.slot = (self.slot + 1) % SLOTS
        self.unsynced = False

    def close(self) -> None:
        self.sync()
        self.file = None
