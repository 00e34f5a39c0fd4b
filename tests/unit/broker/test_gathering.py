"""A gathering is a list, whatever is done to it in whatever order."""

from __future__ import annotations

import gc
import random
import weakref

import pytest

from embermq.broker.gathering import Gathering


class Item:
    """Something that can be seen to go."""


@pytest.mark.parametrize("seed", range(20))
def test_it_holds_what_a_list_would(seed: int) -> None:
    dice = random.Random(seed)
    gathering, model = Gathering(), list[int]()
    for number in range(2000):
        match dice.choice("aaaaaaaaadfptn"):
            case "a":
                for _ in range(dice.choice([1, 1, 1, 2, 20])):
                    gathering.add(number)
                    model.append(number)
            case "f":
                gathering.forget()
                model.clear()
            case "d":
                gathering.drop_first()
                del model[:1]
            case "p":
                more = list(range(dice.choice([0, 1, 2, 50])))
                gathering.put_first(more)
                model[:0] = more
            case "t":
                assert gathering.take() == model
                model.clear()
            case _:
                if model:
                    assert gathering.first() == model[0]
                else:
                    with pytest.raises(IndexError):
                        gathering.first()
        assert gathering.count == len(model)


@pytest.mark.parametrize("count", [1, 2, 3, 100])
@pytest.mark.parametrize("way", ["forget", "take"])
def test_it_holds_on_to_nothing_that_has_left(count: int, way: str) -> None:
    gathering, seen = Gathering(), weakref.WeakSet[Item]()
    for _ in range(count):
        item = Item()
        seen.add(item)
        gathering.add(item)
    del item
    assert len(seen) == count
    getattr(gathering, way)()
    gc.collect()
    assert len(seen) == 0
