"""Topic exchanges: words between dots, * for exactly one word, # for any number of them."""

import random

import pytest

from tests.conformance.model import drain, exchange
from tests.conformance.rules import rule
from tests.support.raw_client import RawChannel, spec

topic = rule("002", "3.1.3.3", "topic/matching", "* stands for one word, # for zero or more")
words = rule("002", "3.1.3.3", "topic/words", "Routing keys are zero or more words separated by dots")

# pattern: (keys that match, keys that do not)
TABLE: dict[str, tuple[list[str], list[str]]] = {
    "*.stock.#": (["usd.stock", "eur.stock.db", "usd.stock.a.b"], ["stock.nasdaq", "stock", "a.b.stock"]),
    "": ([""], ["a", "."]),
    "a": (["a"], ["", "A", "a.b", "b", "aa"]),
    "*": (["a", "stock", "*", "#"], ["", "a.b"]),
    "#": (["", "a", "a.b", "a.b.c", "..", "#"], []),
    "*.*": (["a.b", ".", "a."], ["", "a", "a.b.c"]),
    "a.*": (["a.b", "a."], ["a", "a.b.c", "b.a"]),
    "*.b": (["a.b", ".b"], ["b", "a.a.b", "a.c"]),
    "a.#": (["a", "a.b", "a.b.c.d"], ["", "b", "b.a", "ab"]),
    "#.b": (["b", "a.b", "a.a.b", "b.b"], ["", "b.a", "ab"]),
    "a.#.b": (["a.b", "a.x.b", "a.x.y.b", "a.b.b"], ["a", "b", "a.x", "x.a.b"]),
    "a.*.#.b": (["a.x.b", "a.x.y.b", "a.b.b"], ["a.b", "a.x"]),
    "#.*": (["a", "a.b", "a.b.c"], [""]),
    "*.#": (["a", "a.b", "a.b.c"], [""]),
    "#.#": (["", "a", "a.b", "a.b.c"], []),
    "#.#.#": (["", "a", "a.b.c.d"], []),
    "#.*.#": (["a", "a.b", "a.b.c"], [""]),
    "#.*.*.#": (["a.b", "a.b.c"], ["", "a"]),
    "a.#.#.b": (["a.b", "a.x.b", "a.x.y.z.b"], ["a", "b", "a.x"]),
    "#.a.#": (["a", "x.a", "a.x", "x.a.y", "x.y.a.z.w"], ["", "x", "x.y"]),
    "#.a.#.b.#": (["a.b", "x.a.y.b.z", "a.a.b.b"], ["b.a", "a", "b"]),
    "#.a.b.#.c": (["a.b.c", "a.a.b.c", "x.a.b.y.c"], ["a.c.b", "a.b", "a.x.b.c"]),
    "a*": (["a*"], ["ab", "a"]),
    "*a.#b": (["*a.#b"], ["xa.xb", "a.b"]),
}


def matches(pattern: list[str], key: list[str]) -> bool:
    """The definition, straight from the words of the rule."""
    if not pattern:
        return not key
    if pattern[0] == "#":
        return any(matches(pattern[1:], key[start:]) for start in range(len(key) + 1))
    return bool(key) and pattern[0] in ("*", key[0]) and matches(pattern[1:], key[1:])


def split(text: str) -> list[str]:
    return text.split(".") if text else []


def route(channel: RawChannel, patterns: list[str], keys: list[str]) -> dict[str, list[str]]:
    """Bind a queue per pattern, publish every key, and return the keys that arrived per pattern."""
    name = exchange(channel, "topic")
    queues = {pattern: channel.declare() for pattern in patterns}
    for pattern, queue in queues.items():
        channel.bind(queue, name, pattern)
    for key in keys:
        channel.publish(key.encode(), exchange=name, routing_key=key)
    return {pattern: [body.decode() for body in drain(channel, queue)] for pattern, queue in queues.items()}


@topic
@words
@pytest.mark.parametrize("pattern", TABLE)
def test_pattern(channel: RawChannel, pattern: str) -> None:
    wanted, unwanted = TABLE[pattern]
    assert route(channel, [pattern], wanted + unwanted) == {pattern: wanted}


@topic
def test_all_patterns_together(channel: RawChannel) -> None:
    """In one exchange the patterns share their beginnings; none may disturb another."""
    keys = sorted({key for wanted, unwanted in TABLE.values() for key in wanted + unwanted})
    expected = {pattern: [key for key in keys if matches(split(pattern), split(key))] for pattern in TABLE}
    assert route(channel, list(TABLE), keys) == expected


@topic
@pytest.mark.parametrize("seed", range(3))
def test_random_patterns_agree_with_the_definition(channel: RawChannel, seed: int) -> None:
    dice = random.Random(seed)
    patterns = sorted({".".join(dice.choices(["a", "b", "*", "#"], k=dice.randint(1, 5))) for _ in range(60)})
    keys = sorted({".".join(dice.choices("abc", k=dice.randint(1, 6))) for _ in range(80)})
    expected = {pattern: [key for key in keys if matches(split(pattern), split(key))] for pattern in patterns}
    assert route(channel, patterns, keys) == expected


@topic
@rule("001", "1.7.2.5", "queue.unbind/topic", "Unbinding a pattern takes away that pattern and no other")
def test_unbinding_one_of_many_patterns(channel: RawChannel) -> None:
    name, queue, witness = exchange(channel, "topic"), channel.declare(), channel.declare()
    patterns = ["a.b.c", "a.*.c", "a.#", "#", "a.b.*", "*.b.c"]
    channel.bind(witness, name, "#")
    for pattern in patterns:
        channel.bind(queue, name, pattern)
    while patterns:
        channel.publish(b"still bound", exchange=name, routing_key="a.b.c")
        assert drain(channel, queue) == [b"still bound"], patterns
        channel.call(spec.Queue.Unbind(queue=queue, exchange=name, routing_key=patterns.pop()))
    channel.publish(b"unbound", exchange=name, routing_key="a.b.c")
    assert drain(channel, queue) == []
    assert drain(channel, witness)[-1] == b"unbound"


@topic
def test_queues_share_a_pattern(channel: RawChannel) -> None:
    name = exchange(channel, "topic")
    queues = [channel.declare() for _ in range(3)]
    for queue in queues:
        channel.bind(queue, name, "shared.*")
    channel.call(spec.Queue.Unbind(queue=queues[0], exchange=name, routing_key="shared.*"))
    channel.publish(b"x", exchange=name, routing_key="shared.key")
    assert [drain(channel, queue) for queue in queues] == [[], [b"x"], [b"x"]]


@topic
@words
def test_long_keys_of_many_words(channel: RawChannel) -> None:
    key = ".".join("a" * 128)
    patterns = ["#", key, "#.a", "a.#", ".".join("*" * 128), "#.*.#.*.#.*", "#.b.#"]
    assert route(channel, patterns, [key]) == {p: [] if p == "#.b.#" else [key] for p in patterns}


@topic
@rule(
    "002", "4.10.2", "topic/bounded-work", "No key and no pattern can keep the server busy for long", "SHOULD"
)
def test_matching_takes_no_exponential_time(channel: RawChannel, target: str) -> None:
    """Tried one by one, the ways to deal 128 words to 40 # are more than atoms in the world."""
    if target == "rabbitmq":
        pytest.skip("RabbitMQ 3.10 tries them one by one and would keep a core busy")
    key = ".".join("a" * 128)
    wanted, unwanted = ".".join(["#", "*"] * 40), ".".join(["#", "a"] * 40 + ["b"])
    assert route(channel, [wanted, unwanted], [key]) == {wanted: [key], unwanted: []}
