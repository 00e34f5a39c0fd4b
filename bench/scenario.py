"""What a benchmark is: a name, a function that measures one broker once, and the metric it is judged by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol


class Target(Protocol):
    """A running broker, ours (`tools.brokers`) or somebody's (`bench raw --port`)."""

    host: str

    @property
    def port(self) -> int: ...

    def cpu_seconds(self) -> float: ...

    def rss_bytes(self) -> int: ...


@dataclass(frozen=True)
class Options:
    """How long and how much. `scale` multiplies numbers of messages, queues and connections in heavy runs."""

    seconds: float = 5.0
    scale: float = 1.0

    def scaled(self, count: int, *, at_least: int = 10_000) -> int:
        return max(at_least, int(count * self.scale))


@dataclass(frozen=True)
class Outcome:
    """One run. `series` holds columns of equal length for plots."""

    metrics: dict[str, float]
    series: dict[str, list[float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Scenario:
    name: str
    group: str
    title: str
    run: Callable[[Target, Options], Outcome]
    headline: str = "messages_per_second"
    higher_is_better: bool = True
    shown: tuple[str, ...] = ("broker_us_per_message",)  # metrics in the table beside the headline
    owns_broker: bool = False  # starts, stops or bloats its broker: gets a new one for each run
    scales: bool = False  # `Options.scale` changes it
    runs_max: int | None = None  # long scenarios are repeated less often
    only: tuple[str, ...] = ()  # the brokers that can do it; empty: all
    messages: int = 0  # how many at scale 1; "{messages}" in the title becomes the number at the scale used

    def titled(self, options: Options) -> str:
        return self.title.format(messages=f"{options.scaled(self.messages):,}")
