"""Memory and disk monitor: the memory of this process against its limit, and free disk space.

The limits of control groups (a container, a service) count where they are lower than the machine's.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

MEMBERSHIP = Path("/proc/self/cgroup")
ROOT = Path("/sys/fs/cgroup")


def memory_limits(membership: Path = MEMBERSHIP, root: Path = ROOT) -> Iterator[int]:
    """In bytes; none where none is set."""
    try:
        lines = membership.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:  # version 2
            yield from limits_up_to(root, path, "memory.max")
        elif "memory" in controllers.split(","):  # version 1
            yield from limits_up_to(root / "memory", path, "memory.limit_in_bytes")


def limits_up_to(root: Path, path: str, name: str) -> Iterator[int]:
    """The limits of a group and of those around it."""
    group = Path(path.lstrip("/"))
    for directory in (group, *group.parents):
        try:
            text = (root / directory / name).read_text().strip()
        except OSError:
            continue
        if text.isdecimal():  # or "max"
            yield int(text)


PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
# Free space below which publishers wait, unless configured: a hundredth of the disk, 200 MiB at most.
DISK_PART = 100
DISK_FREE_BYTES_MAX = 200 * 1024 * 1024
# An alarm clears only a little beyond the line, so that it does not flicker.
CLEAR_FACTOR = 0.95
# Of the memory limit: from here on queues keep less in memory, so that they do not raise the alarm.
TIGHT_PART = 0.5
# A broker that has this little to do gives back what the last burst left, if it is worth the trouble.
REST_CPU_PART = 0.02
GROWTH_BYTES_MIN = 2 * 1024 * 1024

STATM_BYTES_MAX = 256

SetAlarm = Callable[[str, bool, str], None]
SetTight = Callable[[bool], None]


def memory_total_bytes() -> int:
    return min(os.sysconf("SC_PHYS_PAGES") * PAGE_BYTES, *memory_limits(), sys.maxsize)


def resident_bytes() -> int:
    """Memory of this process. (Without a file object, which costs more than the reading.)"""
    descriptor = os.open("/proc/self/statm", os.O_RDONLY)
    try:
        return int(os.read(descriptor, STATM_BYTES_MAX).split()[1]) * PAGE_BYTES
    finally:
        os.close(descriptor)


def default_disk_free_limit(directory: str) -> int:
    disk = os.statvfs(directory)
    return min(disk.f_blocks * disk.f_frsize // DISK_PART, DISK_FREE_BYTES_MAX)


def give_back_memory() -> None:
    """Ask the C library to return what is free; where there is no such call, nothing happens."""
    trim = getattr(c_library(), "malloc_trim", None)
    if trim is not None:
        trim(0)


@functools.cache
def c_library() -> ctypes.CDLL:
    return ctypes.CDLL(None)


def mebibytes(count: int) -> str:
    return f"{count / 2**20:,.0f} MiB"


class ResourceMonitor:
    """Looks when told to, and raises or clears the alarms."""

    def __init__(
        self,
        directory: str,
        memory_part: float,
        disk_free_limit: int,
        set_alarm: SetAlarm,
        set_tight: SetTight = lambda tight: None,
    ) -> None:
        self.directory = directory
        self.set_limits(memory_part, disk_free_limit)
        self.set_alarm = set_alarm
        self.set_tight = set_tight
        self.looked_at, self.cpu_s = time.monotonic(), time.process_time()
        self.given_back_at_bytes = 0  # memory when it was last asked for
        self.memory_low = False
        self.disk_low = False

    def set_limits(self, memory_part: float, disk_free_limit: int) -> None:
        self.memory_limit = int(memory_total_bytes() * memory_part)
        self.disk_free_limit = disk_free_limit or default_disk_free_limit(self.directory)

    def at_rest(self) -> bool:
        """Next to nothing was done since this was asked last."""
        now, cpu_s = time.monotonic(), time.process_time()
        spent_s, passed_s = cpu_s - self.cpu_s, now - self.looked_at
        self.looked_at, self.cpu_s = now, cpu_s
        return spent_s < passed_s * REST_CPU_PART

    def check(self) -> None:
        used = resident_bytes()
        grown = used >= self.given_back_at_bytes + GROWTH_BYTES_MIN
        if self.at_rest() and grown or used > self.memory_limit * CLEAR_FACTOR:
            # Freed memory counts as ours until the allocator gives it back, and it waits to be asked.
            give_back_memory()
            used = self.given_back_at_bytes = resident_bytes()
        self.set_tight(used > self.memory_limit * TIGHT_PART)
        self.memory_low = used > self.memory_limit * (CLEAR_FACTOR if self.memory_low else 1.0)
        told = f"{mebibytes(used)} in use, the high watermark is {mebibytes(self.memory_limit)}"
        self.set_alarm("memory", self.memory_low, told)
        disk = os.statvfs(self.directory)
        free = disk.f_bavail * disk.f_frsize
        self.disk_low = free < self.disk_free_limit / (CLEAR_FACTOR if self.disk_low else 1.0)
        told = f"{mebibytes(free)} free, the limit is {mebibytes(self.disk_free_limit)}"
        self.set_alarm("disk", self.disk_low, told)
