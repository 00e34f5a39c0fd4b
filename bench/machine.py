"""On what the numbers were taken."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from contextlib import suppress
from pathlib import Path


def cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


def memory_gib() -> float:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30


def _first_line(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip().partition("\n")[0] if done.returncode == 0 else ""


def distribution() -> str:
    return platform.freedesktop_os_release().get("PRETTY_NAME", "unknown")


def describe() -> dict[str, str]:
    return {
        "cpu": cpu_model(),
        "cores": str(os.cpu_count()),
        "memory": f"{memory_gib():.0f} GiB",
        "system": f"{distribution()}, Linux {platform.release()}",
        "python": platform.python_version(),
        "embermq build": _first_line(sys.executable, "-m", "embermq.build"),
        "commit": _first_line("git", "describe", "--always", "--dirty"),
    }


def busy_seconds() -> float:
    """CPU time of all processes since the system came up; shows who else was working during a run."""
    user, nice, system, _idle, _iowait, irq, softirq, *_ = (
        int(field) for field in Path("/proc/stat").read_text().partition("\n")[0].split()[1:]
    )
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def tree_seconds(pid: int) -> float:
    """CPU time of a process and of all below it, those that have ended among them."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0  # it has just ended
    own = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return own + sum(map(tree_seconds, children(pid)))


def children(pid: int) -> list[int]:
    found: list[int] = []
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):  # a thread that has just ended
            found += map(int, file.read_text().split())
    return found
