"""Run random programs against EmberMQ and RabbitMQ and tell where they differ.

python -m tools.differ --programs 1000 --seed 1          # make differ
python -m tools.differ --run program.json                # one program, both transcripts
python -m tools.differ --record programs/*.json          # RabbitMQ's answers, for tests/differential
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from tools.brokers import REPOSITORY, EmberBroker, RabbitBroker
from tools.differ.generate import FLAVOURS, generate
from tools.differ.http_generate import generate_web
from tools.differ.pair import PLUGINS, Pair
from tools.differ.program import Program, written
from tools.differ.shrink import shrink
from tools.differ.side import Side

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


def hunt(pair: Pair, first: int, count: int, flavour: str | None, kept: Path | None, seconds: float) -> int:
    known: dict[str, int] = {}
    keys: dict[str, int] = {}
    began = time.monotonic()
    done = steps = flaky = 0
    for seed in range(first, first + count):
        if seconds and time.monotonic() - began > seconds:
            break
        if done % PROGRESS_EVERY == 0 and done:
            print(f"... {done} programs, {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
        program = generate_web(seed) if flavour == "http" else generate(seed, flavour)
        done, steps = done + 1, steps + len(program)
        found = pair.difference(program)
        if found is None:
            continue
        if found.deliberate:
            known[found.deliberate] = known.get(found.deliberate, 0) + 1
            continue
        found = pair.lasting(program[: found.step + 1])
        if found is None:
            flaky += 1
            continue
        if found.key in keys:
            keys[found.key] += 1
            continue
        keys[found.key] = 1
        key = found.key

        def shows(candidate: Program, key: str = key) -> bool:
            other = pair.difference(candidate)
            return other is not None and other.key == key

        small = shrink(program[: found.step + 1], shows)
        print(
            f"--- seed {seed}\n{written(small)}\n  EmberMQ:  {found.ours}\n  RabbitMQ: {found.theirs}",
            flush=True,
        )
        if kept is not None:
            kept.mkdir(parents=True, exist_ok=True)
            (kept / f"{seed}.json").write_text(written(small))
    print(
        f"{done} programs, {steps} steps, {time.monotonic() - began:.0f} s: {len(keys)} differences, "
        f"{flaky} that did not come again, deliberate: {known}"
    )
    return int(bool(keys))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.differ", description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=0, help="stop after so long")
    parser.add_argument("--seed", type=int, default=1, help="of the first program; the next has the next")
    parser.add_argument("--flavour", choices=[*FLAVOURS, "http"])
    parser.add_argument("--keep", type=Path, help="a directory for the programs that show a difference")
    parser.add_argument("--run", type=Path, help="a program to run instead, telling everything")
    parser.add_argument("--record", type=Path, nargs="+", help="programs to keep with RabbitMQ's answers")
    chosen = parser.parse_args()
    if chosen.record:
        return record(chosen.record)
    with EmberBroker() as ember, RabbitBroker(management=True, plugins=PLUGINS) as rabbit:
        pair = Pair(ember, rabbit)
        if chosen.run is not None:
            return run_one(pair, chosen.run)
        return hunt(pair, chosen.seed, chosen.programs, chosen.flavour, chosen.keep, chosen.seconds)


if __name__ == "__main__":
    sys.exit(main())
