"""Two transcripts of one program: where they part."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from tools.differ.known import known
from tools.differ.program import Program
from tools.differ.side import Told


@dataclass(frozen=True)
class Difference:
    """The first step whose observations differ; the one behind the last step is the end of the program."""

    step: int
    ours: Any
    theirs: Any
    deliberate: str | None

    @property
    def key(self) -> str:
        """The same for differences that are alike but for names and numbers."""
        return re.sub(r"\b[qec]\d\b|\d+x*", "N", f"{self.ours!r} / {self.theirs!r}")


def compare(program: Program, ours: list[Told], theirs: list[Told]) -> Difference | None:
    """`ours` is EmberMQ's transcript, `theirs` RabbitMQ's."""
    for number, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
        if mine != other and not is_commit(mine, other):
            step = program[number] if number < len(program) else {"do": "end"}
            return Difference(
                number,
                only_different(mine, other),
                only_different(other, mine),
                known(step, mine, other, program[:number]),
            )
    return None


def is_commit(mine: Told, other: Told) -> bool:
    """The same, but commit-ok came before what it made ready for the channel's consumers, or behind it."""
    return mine.keys() == other.keys() and all(
        without_commit(told) == without_commit(other[place]) for place, told in mine.items()
    )


def without_commit(told: Any) -> Any:
    """commit-ok counts, not its place."""
    if not isinstance(told, list):
        return told
    return sorted(told, key=lambda answer: answer == ["tx.commit-ok", {}])


def only_different(one: Any, other: Any) -> Any:
    if isinstance(one, dict) and isinstance(other, dict):
        return {
            key: only_different(value, other[key]) if key in other else value
            for key, value in one.items()
            if key not in other or value != other[key]
        }
    return one
