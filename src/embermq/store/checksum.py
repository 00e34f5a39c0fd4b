"""CRC-32 as zlib computes it, at the speed the machine allows.

`checksum.pyx` beside this file is the compiled twin: where the processor can (x86-64) it folds 64 bytes at a
time by carry-less multiplication, several times faster than zlib, and without the cost of a Python call. A
record is checksummed when it is written and whenever it is read back.
"""

from __future__ import annotations

from zlib import crc32

__all__ = ["crc32"]
