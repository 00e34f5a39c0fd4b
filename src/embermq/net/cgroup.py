"""How much memory the control groups leave to this process: a container's, or a service's of systemd.

`/proc/self/cgroup` names the group that the process is in, in lines `number:controllers:/path`; the limit of
each group around it counts as well. A container often sees its own group as the root, whatever the path says.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

MEMBERSHIP = Path("/proc/self/cgroup")
ROOT = Path("/sys/fs/cgroup")


def memory_limits(membership: Path = MEMBERSHIP, root: Path = ROOT) -> Iterator[int]:
    """In bytes; none where nobody has set one."""
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
