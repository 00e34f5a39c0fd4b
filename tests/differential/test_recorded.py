"""Programs on which EmberMQ and RabbitMQ once differed, with what RabbitMQ answers.

`python -m tools.differ --record NAME --run program.json` adds one. EMBERMQ_TEST_TARGET=rabbitmq checks that
RabbitMQ still answers as it was written down.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.management import managed_broker
from tools.differ.side import Side

RECORDED = sorted((Path(__file__).parent / "recorded").glob("*.json"))


@pytest.fixture(scope="module")
def side(target: str) -> Iterator[Side]:
    with managed_broker(target) as broker:
        side = Side(broker)
        yield side
        side.close()


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_recorded(side: Side, path: Path) -> None:
    case = json.loads(path.read_text())
    told = side.run(case["program"], case["expected"])
    for step, ours, theirs in zip([*case["program"], "end"], told, case["expected"], strict=True):
        assert ours == theirs, step
