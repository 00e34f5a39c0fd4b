"""Prometheus' text format: families of samples, each family with its kind and help once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

PARTS_PER_BLOCK = 1000
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class HistogramLike(Protocol):
    bounds: tuple[float, ...]
    counts: list[int]
    sum: float


def escaped(value: str) -> str:
    """A label's value; a lone surrogate, which no scrape could carry, is replaced."""
    text = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return text.encode("utf-8", "replace").decode()


def labelled(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{escaped(value)}"' for name, value in labels.items()) + "}"


class Exposition:
    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix
        self.parts: list[str] = []
        self.blocks: list[bytes] = []  # parts that are put together: a scrape may have 100,000 lines

    def family(self, name: str, kind: str, about: str) -> None:
        self.parts.append(f"# HELP {self.prefix}{name} {about}\n# TYPE {self.prefix}{name} {kind}\n")

    def sample(self, name: str, value: float, labels: str = "") -> None:
        self.parts.append(f"{self.prefix}{name}{labels} {value}\n")
        if len(self.parts) >= PARTS_PER_BLOCK:
            self.end_block()

    def end_block(self) -> None:
        self.blocks.append("".join(self.parts).encode())
        self.parts.clear()

    def add(self, name: str, kind: str, about: str, value: float, **labels: str) -> None:
        """A family of one."""
        self.family(name, kind, about)
        self.sample(name, value, labelled(labels))

    def add_histogram(self, name: str, about: str, histogram: HistogramLike) -> None:
        self.family(name, "histogram", about)
        below = 0
        for bound, count in zip(histogram.bounds, histogram.counts, strict=False):
            below += count
            self.sample(f"{name}_bucket", below, f'{{le="{bound}"}}')
        total = sum(histogram.counts)
        self.sample(f"{name}_bucket", total, '{le="+Inf"}')
        self.sample(f"{name}_sum", round(histogram.sum, 9))
        self.sample(f"{name}_count", total)

    def text(self) -> bytes:
        self.end_block()
        return b"".join(self.blocks)
