"""Memory: the limits of the cgroups around the process; what the allocator holds back is returned at rest."""

from pathlib import Path

import pytest

from embermq.net import resource_monitor as watch
from embermq.net.resource_monitor import GROWTH_BYTES_MIN, REST_CPU_PART, ResourceMonitor, memory_limits


class Process:
    """Memory and clocks of a process that does what it is told; giving back halves its memory."""

    def __init__(self) -> None:
        self.used, self.now_s, self.cpu_s = 100 * 2**20, 0.0, 0.0
        self.times_asked = 0

    def give_back(self) -> None:
        self.times_asked += 1
        self.used //= 2

    def pass_second(self, cpu_part: float) -> None:
        self.now_s += 1
        self.cpu_s += cpu_part


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Process:
    process = Process()
    monkeypatch.setattr(watch, "resident_bytes", lambda: process.used)
    monkeypatch.setattr(watch, "give_back_memory", process.give_back)
    monkeypatch.setattr(watch, "memory_total_bytes", lambda: 2**30)
    monkeypatch.setattr(watch.time, "monotonic", lambda: process.now_s)
    monkeypatch.setattr(watch.time, "process_time", lambda: process.cpu_s)
    return process


def ignore(name: str, active: bool, detail: str) -> None:
    pass


def test_memory_is_given_back_at_rest(process: Process, tmp_path: Path) -> None:
    watcher = ResourceMonitor(str(tmp_path), 0.5, 1, ignore)
    process.pass_second(REST_CPU_PART * 2)
    watcher.check()
    assert process.times_asked == 0, "there is work to do"
    process.pass_second(REST_CPU_PART / 2)
    watcher.check()
    assert process.times_asked == 1


def test_memory_is_given_back_once_for_each_burst(process: Process, tmp_path: Path) -> None:
    watcher = ResourceMonitor(str(tmp_path), 0.5, 1, ignore)
    for _ in range(3):
        process.pass_second(0)
        watcher.check()
    assert process.times_asked == 1
    process.used += GROWTH_BYTES_MIN - 1
    process.pass_second(0)
    watcher.check()
    assert process.times_asked == 1, "not worth the trouble"
    process.used += 1
    process.pass_second(0)
    watcher.check()
    assert process.times_asked == 2


def test_memory_is_tight_before_it_is_short(process: Process, tmp_path: Path) -> None:
    told: list[bool] = []
    watcher = ResourceMonitor(str(tmp_path), 0.5, 1, ignore, told.append)
    for used in (2**28 - 1, 2**28 + 1, 2**28 - 1):
        process.used = used
        process.pass_second(1)
        watcher.check()
    assert told == [False, True, False]


def test_near_the_watermark_work_does_not_matter(process: Process, tmp_path: Path) -> None:
    alarms: list[bool] = []
    watcher = ResourceMonitor(str(tmp_path), 0.05, 1, lambda name, active, detail: alarms.append(active))
    process.pass_second(1)
    watcher.check()
    assert process.times_asked == 1
    assert alarms[0] is False, "what was given back does not count"


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
def test_cgroups(tmp_path: Path, membership: str, files: dict[str, str], expected: list[int]) -> None:
    assert limits(tmp_path, membership, files) == expected


def test_a_machine_without_cgroups(tmp_path: Path) -> None:
    assert list(memory_limits(tmp_path / "none", tmp_path)) == []
