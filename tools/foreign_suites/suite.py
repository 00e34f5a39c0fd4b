"""A suite: where it comes from, how it is prepared and run, and in which tests EmberMQ means to differ."""

from __future__ import annotations

import fnmatch
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tools.brokers import REPOSITORY
from tools.foreign_suites.results import Outcomes
from tools.foreign_suites.sources import BUILD, Source

STAND_INS = Path(__file__).resolve().parent / "stand_ins"
PYTHON = BUILD / "python" / "bin" / "python"


@dataclass(frozen=True)
class Certificates:
    """Of the broker, as paths in the suite's folder; clients may show one that the authority signed."""

    authority: str
    certificate: str
    key: str


@dataclass(frozen=True)
class Choice:
    """Which files (or classes) of a suite: with `only` in the name, every `parts`-th from `part` on."""

    part: int = 1
    parts: int = 1
    only: str = ""

    @property
    def is_all(self) -> bool:
        return self == Choice()

    def of(self, names: list[str]) -> list[str]:
        return [name for name in names if self.only in name][self.part - 1 :: self.parts]

    @classmethod
    def parse(cls, part: str, only: str) -> Choice:
        """From the command line, e.g. "2/5"."""
        number, _, count = part.partition("/")
        return cls(int(number), int(count or 1), only)


@dataclass(frozen=True)
class Suite:
    name: str
    version: str
    language: str
    source: Source
    command: str  # for a shell in the unpacked folder; $REPORT is the file for the report, $TESTS see below
    read: Callable[[Path, str], Outcomes]
    tests: str = ""  # for a shell in the unpacked folder: writes what can be run by itself, a line each
    prepare: str = ""  # for a shell in the unpacked folder, with the network of the machine
    about: str = ""
    files: Mapping[str, str] = field(default_factory=dict)  # our stand-in -> its place in the suite
    packages: tuple[str, ...] = ()  # of Debian
    environment: Mapping[str, str] = field(default_factory=dict)
    certificates: Certificates | None = None
    setting_up: str = ""  # for a shell beside the running broker; rabbitmqctl is there
    minutes_max: int = 10
    # Pattern of test names -> why EmberMQ means to end differently from RabbitMQ.
    differences: Mapping[str, str] = field(default_factory=dict)
    # Pattern of test names -> why a test is not run; it brings down the suite, or tests no broker.
    left_out: Mapping[str, str] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        return BUILD / "suites" / self.name

    def reason(self, test: str) -> str | None:
        for pattern, reason in self.differences.items():
            if fnmatch.fnmatchcase(test, pattern):
                return reason
        return None

    def make_ready(self) -> None:
        """Unpack and build, once: the stamp says for which description of the suite that was done."""
        stamp = self.folder / ".ready"
        used = [path for path in STAND_INS.iterdir() if path.name in self.prepare or path.name in self.files]
        contents = "".join(path.read_text() for path in sorted(used))
        description = f"{self.source}{self.prepare}{dict(self.files)}{contents}"
        if stamp.exists() and stamp.read_text() == description:
            return
        if self.packages:
            subprocess.run([str(REPOSITORY / "tools" / "apt-install.sh"), *self.packages], check=True)
        self.source.unpack(self.folder)
        for stand_in, place in self.files.items():
            shutil.copyfile(STAND_INS / stand_in, self.folder / place)
        if self.prepare:
            subprocess.run(
                ["bash", "-euo", "pipefail", "-c", self.prepare],
                cwd=self.folder,
                env={**os.environ, "STAND_INS": str(STAND_INS), "PYTHON": str(PYTHON), "BUILD": str(BUILD)},
                check=True,
            )
        stamp.write_text(description)
