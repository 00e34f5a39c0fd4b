"""Run random programs against EmberMQ and RabbitMQ and tell where they differ.

python -m tools.differ --programs 1000 --seed 1          # make differ
python -m tools.differ --run program.json                # one program, both transcripts
python -m tools.differ --record programs/*.json          # RabbitMQ's answers, for tests/differential
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from pathlib import Path

from tools.brokers import REPOSITORY, EmberBroker, RabbitBroker
from tools.differ.compare import Difference
from tools.differ.generate import FLAVOURS, generate
from tools.differ.http_generate import generate_web
from tools.differ.pair import PLUGINS, Pair
from tools.differ.program import Program, written
from tools.differ.shrink import shrink
from tools.differ.side import Side
from tools.differ.together import Together

PROGRESS_EVERY = 50
RECORDED = REPOSITORY / "tests/differential/recorded"


def run_one(pair: Pair, path: Path) -> int:
    program = json.loads(path.read_text())
    for side in pair.sides:
        print(side.broker.name)
        for step, told in zip([*program, {"do": "end"}], side.run(program), strict=True):
            print("  ", json.dumps(step), "\n      ->", json.dumps(told))
    found = pair.difference(program)
    print(f"differs: {found}" if found else "the same")
    return int(found is not None)


def record(paths: list[Path]) -> int:
    """Run programs against RabbitMQ alone and keep them with its answers."""
    RECORDED.mkdir(parents=True, exist_ok=True)
    with RabbitBroker(management=True, plugins=PLUGINS) as rabbit:
        side = Side(rabbit)
        for path in paths:
            program = json.loads(path.read_text())
            if isinstance(program, dict):
                program = program["program"]
            expected = side.run(program)
            text = f'{{"program": {written(program)},\n"expected": {written(expected)}}}\n'
            (RECORDED / path.name).write_text(text)
    return 0


class Hunt:
    """Program after program, and an account of what was found."""

    def __init__(self, pair: Pair, together: Together | None, kept: Path | None) -> None:
        self.pair, self.together, self.kept = pair, together, kept
        self.known: dict[str, int] = {}
        self.keys: dict[str, int] = {}
        self.began = time.monotonic()
        self.done = self.steps = self.flaky = 0

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    def run(self, first: int, count: int, flavour: str | None, seconds: float) -> int:
        seeds = iter(range(first, first + count))
        size = len(self.together.pairs) if self.together else 1
        while batch := list(itertools.islice(seeds, size)):
            if seconds and self.seconds > seconds:
                break
            programs = [
                generate_web(seed) if flavour == "http" else generate(seed, flavour) for seed in batch
            ]
            found = (
                self.together.differences(programs) if self.together else map(self.pair.difference, programs)
            )
            for seed, program, difference in zip(batch, programs, found, strict=True):
                self.judge(seed, program, difference)
            if self.done % PROGRESS_EVERY < size:
                print(f"... {self.done} programs, {self.seconds:.0f} s", file=sys.stderr, flush=True)
        print(
            f"{self.done} programs, {self.steps} steps, {self.seconds:.0f} s: {len(self.keys)} differences, "
            f"{self.flaky} that did not come again, deliberate: {self.known}"
        )
        return int(bool(self.keys))

    def judge(self, seed: int, program: Program, found: Difference | None) -> None:
        self.done, self.steps = self.done + 1, self.steps + len(program)
        if found is None:
            return
        if found.deliberate:
            self.known[found.deliberate] = self.known.get(found.deliberate, 0) + 1
            return
        found = self.pair.lasting(program[: found.step + 1])
        if found is None:
            self.flaky += 1
            return
        self.keys[found.key] = self.keys.get(found.key, 0) + 1
        if self.keys[found.key] > 1:
            return
        small = shrink(program[: found.step + 1], lambda candidate: self.shows(candidate, found.key))
        print(
            f"--- seed {seed}\n{written(small)}\n  EmberMQ:  {found.ours}\n  RabbitMQ: {found.theirs}",
            flush=True,
        )
        if self.kept is not None:
            self.kept.mkdir(parents=True, exist_ok=True)
            (self.kept / f"{seed}.json").write_text(written(small))

    def shows(self, candidate: Program, key: str) -> bool:
        other = self.pair.difference(candidate)
        return other is not None and other.key == key


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.differ", description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=0, help="stop after so long")
    parser.add_argument("--seed", type=int, default=1, help="of the first program; the next has the next")
    parser.add_argument("--flavour", choices=[*FLAVOURS, "http"])
    parser.add_argument(
        "--together", type=int, default=1, help="so many at a time, in virtual hosts of their own"
    )
    parser.add_argument("--keep", type=Path, help="a directory for the programs that show a difference")
    parser.add_argument("--run", type=Path, help="a program to run instead, telling everything")
    parser.add_argument("--record", type=Path, nargs="+", help="programs to keep with RabbitMQ's answers")
    chosen = parser.parse_args()
    if chosen.flavour == "http" and chosen.together > 1:
        parser.error("programs of the flavour http share users and virtual hosts: one at a time")
    if chosen.record:
        return record(chosen.record)
    with EmberBroker() as ember, RabbitBroker(management=True, plugins=PLUGINS) as rabbit:
        pair = Pair(ember, rabbit)
        if chosen.run is not None:
            return run_one(pair, chosen.run)
        together = Together(ember, rabbit, chosen.together) if chosen.together > 1 else None
        hunt = Hunt(pair, together, chosen.keep)
        return hunt.run(chosen.seed, chosen.programs, chosen.flavour, chosen.seconds)


if __name__ == "__main__":
    sys.exit(main())
