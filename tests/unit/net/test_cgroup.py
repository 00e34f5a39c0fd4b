"""Whose limit counts: the group's own, and those of the groups around it."""

from __future__ import annotations

from pathlib import Path

import pytest

from embermq.net.resource_monitor import memory_limits


def limits(tmp_path: Path, membership: str, files: dict[str, str]) -> list[int]:
    (tmp_path / "cgroup").write_text(membership)
    for name, text in files.items():
        path = tmp_path / "root" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return list(memory_limits(tmp_path / "cgroup", tmp_path / "root"))


@pytest.mark.parametrize(
    ("membership", "files", "expected"),
    [
        # A service with MemoryMax=, in a slice that has a limit, too.
        (
            "0::/system.slice/embermq.service\n",
            {"system.slice/embermq.service/memory.max": "3000\n", "system.slice/memory.max": "9000\n"},
            [3000, 9000],
        ),
        ("0::/system.slice/embermq.service\n", {"system.slice/embermq.service/memory.max": "max\n"}, []),
        # A container that sees its group as the root.
        ("0::/\n", {"memory.max": "5000\n"}, [5000]),
        # Version 1, among other controllers; the path is that of the machine, the files are the container's.
        (
            "5:devices:/x\n4:cpu,memory:/docker/abc\n0::/\n",
            {"memory/memory.limit_in_bytes": "7000\n", "memory/docker/xyz/memory.limit_in_bytes": "1\n"},
            [7000],
        ),
        ("", {"memory.max": "5000\n"}, []),
    ],
)
def test_limits(tmp_path: Path, membership: str, files: dict[str, str], expected: list[int]) -> None:
    assert limits(tmp_path, membership, files) == expected


def test_a_machine_without_groups(tmp_path: Path) -> None:
    assert list(memory_limits(tmp_path / "none", tmp_path)) == []
