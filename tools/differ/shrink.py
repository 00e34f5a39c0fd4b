"""A shorter program that still shows the difference: fewer steps, then less in each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy

from tools.differ.program import Program


def shrink(program: Program, shows: Callable[[Program], bool], tries: int = 100) -> Program:
    """`shows` tells whether a candidate still shows it; as long as `tries` last, smaller ones are asked."""
    again = True
    while again:
        again = False
        for candidate in smaller(program):
            if tries <= 0:
                return program
            tries -= 1
            if shows(candidate):
                program, again = candidate, True
                break
    return program


def smaller(program: Program) -> Iterator[Program]:
    size = len(program) // 2
    while size:
        for start in range(len(program) - size, -1, -size):
            yield program[:start] + program[start + size :]
        size //= 2
    for number, step in enumerate(program):
        if isinstance(step.get("body"), dict):
            for name in step["body"]:
                yield without(program, number, "body", name)
        for part in ("with", "properties"):
            for name, value in step.get(part, {}).items():
                if name in ("queue", "exchange", "type", "source", "destination", "delivery-tag"):
                    continue
                yield without(program, number, part, name)
                if isinstance(value, dict) and name in ("arguments", "headers") and len(value) > 1:
                    for inner in value:
                        candidate = deepcopy(program)
                        del candidate[number][part][name][inner]
                        yield candidate


def without(program: Program, number: int, part: str, name: str) -> Program:
    candidate = deepcopy(program)
    del candidate[number][part][name]
    return candidate
