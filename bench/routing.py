"""Exchanges at work: fanout to many queues, a topic exchange with many bindings, many queues by key.

The publisher holds back while more than `OUTSTANDING_MAX` deliveries are due, so that a fan of 100 does not
measure who buffers most while a run lasts. The bound matters: EmberMQ's cost per delivery doubles from
100,000 to 400,000 outstanding, RabbitMQ's hardly changes. `fanout_100_deep` shows the unfavourable side.
"""

from __future__ import annotations

import random
from functools import partial

from bench.rig import Rig
from bench.scenario import Options, Outcome, Scenario, Target

OUTSTANDING_MAX = 100_000
DEEP_OUTSTANDING_MAX = 1_000_000
CONSUMER_CONNECTIONS_MAX = 10
WORDS = [f"{kind}{number}" for number in range(10) for kind in ("eu", "log", "order", "price", "sensor")]


def share_out(queues: list[str]) -> list[dict[int, str]]:
    """{slot: queue} for each of at most ten connections."""
    numbered = list(enumerate(queues))
    return [
        dict(numbered[i::CONSUMER_CONNECTIONS_MAX]) for i in range(CONSUMER_CONNECTIONS_MAX) if numbered[i:]
    ]


def run_fanout(
    target: Target, options: Options, *, queues: int, outstanding_max: int = OUTSTANDING_MAX
) -> Outcome:
    names = [f"bench-fan-{i}" for i in range(queues)]
    with Rig(target, slots=queues, outstanding_max=outstanding_max) as rig:
        rig.declare_exchange("bench-fan", "fanout")
        rig.declare(names)
        rig.admin.bind("bench-fan", [(name, "") for name in names])
        for part in share_out(names):
            rig.consumer(part)
        rig.publisher([("bench-fan", "any")], body_bytes=16, fan=queues, chunk_bytes=16384)
        return rig.measure(options.seconds)


def topic_bindings(count: int, queues: list[str], dice: random.Random) -> list[tuple[str, str]]:
    """Patterns of three words: one in four literal, the rest with a `*`, a few ending in `#`."""
    patterns: dict[tuple[str, str], None] = {}
    while len(patterns) < count:
        words = [dice.choice(WORDS) for _ in range(3)]
        form = dice.random()
        if form < 0.05:
            pattern = f"{words[0]}.{words[1]}.#"
        elif form < 0.35:
            pattern = f"{words[0]}.*.{words[2]}"
        elif form < 0.75:
            pattern = f"{words[0]}.{words[1]}.*"
        else:
            pattern = ".".join(words)
        patterns[dice.choice(queues), pattern] = None
    return list(patterns)


def fans(bindings: list[tuple[str, str]], keys: list[str]) -> list[int]:
    """How many queues each key reaches (a queue gets one copy, however many bindings match).

    This is the judge of what must be delivered, so it shares no idea with a broker's trie: it asks for each
    of the patterns above that could match a key of three words.
    """
    queues_of: dict[str, set[str]] = {}
    for queue, pattern in bindings:
        queues_of.setdefault(pattern, set()).add(queue)
    nothing: set[str] = set()
    counts = []
    for key in keys:
        first, second, third = key.split(".")
        could_match = (key, f"{first}.*.{third}", f"{first}.{second}.*", f"{first}.{second}.#")
        counts.append(len(set().union(*(queues_of.get(pattern, nothing) for pattern in could_match))))
    return counts


def distinct_keys(count: int, dice: random.Random) -> list[str]:
    keys: dict[str, None] = {}
    while len(keys) < count:
        keys[".".join(dice.choices(WORDS, k=3))] = None
    return list(keys)


def run_topic(target: Target, options: Options, *, keys: int) -> Outcome:
    """10,000 bindings over 20 queues, a key reaches about three of them.

    The keys come in turn, never by popularity: with 50,000 of them a small cache of routes is worth nothing.
    """
    dice = random.Random(7)
    names = [f"bench-topic-{i}" for i in range(20)]
    bindings = topic_bindings(max(100, int(10_000 * options.scale)), names, dice)
    routing_keys = distinct_keys(keys, dice)
    with Rig(target, slots=len(names), stride=0, outstanding_max=OUTSTANDING_MAX) as rig:
        rig.declare_exchange("bench-topic", "topic")
        rig.declare(names)
        rig.admin.bind("bench-topic", bindings)
        for part in share_out(names):
            rig.consumer(part)
        fan = fans(bindings, routing_keys)
        rig.publisher(
            [("bench-topic", key) for key in routing_keys], body_bytes=16, fan=fan, chunk_bytes=32768
        )
        outcome = rig.measure(options.seconds)
    outcome.metrics["mean_fan"] = sum(fan) / len(fan)
    # What is judged is routing: messages published, not copies delivered.
    cpu = outcome.metrics["broker_us_per_message"] * outcome.metrics["delivered"]
    outcome.metrics["broker_us_per_publish"] = cpu / outcome.metrics["published"]
    return outcome


def run_conditions(target: Target, options: Options, *, type: str) -> Outcome:
    """10,000 bindings over 20 queues, each for one value of a header; a message matches one of them."""
    names = [f"bench-customer-{i}" for i in range(20)]
    count = max(100, int(10_000 * options.scale))
    bindings: list[tuple[str, str, dict[str, str | int]]] = []
    for i in range(count):
        asked = {"x-selector": f"customer = 'c{i}'"} if type == "x-selector" else {"customer": f"c{i}"}
        bindings.append((names[i % len(names)], "", {**asked}))
    headers = [{"customer": f"c{i}", "amount": i} for i in range(0, count, max(1, count // 1000))]
    with Rig(target, slots=len(names), stride=0, outstanding_max=OUTSTANDING_MAX) as rig:
        rig.declare_exchange("bench-conditions", type)
        rig.declare(names)
        rig.admin.bind_with("bench-conditions", bindings)
        for part in share_out(names):
            rig.consumer(part)
        rig.publisher([("bench-conditions", "any")], body_bytes=16, chunk_bytes=32768, headers=headers)
        return rig.measure(options.seconds)


def run_chained(target: Target, options: Options) -> Outcome:
    """1,000 queues bound to a fanout exchange, each narrowed by a headers exchange to one value."""
    count = max(20, int(1000 * options.scale))
    names = [f"bench-chained-{i}" for i in range(count)]
    headers = [{"customer": f"c{i}"} for i in range(count)]
    with Rig(target, slots=count, stride=0, outstanding_max=OUTSTANDING_MAX) as rig:
        rig.declare_exchange("bench-head", "fanout")
        rig.declare_exchange("bench-link", "headers")
        rig.declare(names)
        rig.admin.bind_with(
            "bench-link", [(names[i], "", {"x-via": "bench-head", "customer": f"c{i}"}) for i in range(count)]
        )
        rig.admin.bind("bench-head", [(name, "") for name in names])
        for part in share_out(names):
            rig.consumer(part)
        rig.publisher([("bench-head", "any")], body_bytes=16, chunk_bytes=32768, headers=headers)
        return rig.measure(options.seconds)


def run_queues(target: Target, options: Options) -> Outcome:
    count = max(10, int(1000 * options.scale))
    names = [f"bench-many-{i}" for i in range(count)]
    with Rig(target, slots=count, stride=count, outstanding_max=OUTSTANDING_MAX) as rig:
        rig.declare(names)
        for part in share_out(names):
            rig.consumer(part)
        rig.publisher([("", name) for name in names], body_bytes=16, chunk_bytes=32768)
        return rig.measure(options.seconds)


SCENARIOS = [
    Scenario(
        "fanout_10", "routing", "fanout to 10 queues, 16 B (deliveries/s)", partial(run_fanout, queues=10)
    ),
    Scenario(
        "fanout_100", "routing", "fanout to 100 queues, 16 B (deliveries/s)", partial(run_fanout, queues=100)
    ),
    Scenario(
        "fanout_100_deep",
        "routing",
        "fanout to 100 queues, 16 B, up to 1,000,000 deliveries outstanding (deliveries/s)",
        partial(run_fanout, queues=100, outstanding_max=DEEP_OUTSTANDING_MAX),
    ),
    Scenario(
        "topic_1k_keys",
        "routing",
        "topic exchange, 10,000 bindings, 1,000 keys (publishes/s)",
        partial(run_topic, keys=1000),
        headline="published_per_second",
        shown=("broker_us_per_publish", "mean_fan"),
        scales=True,
    ),
    Scenario(
        "topic_50k_keys",
        "routing",
        "topic exchange, 10,000 bindings, 50,000 keys (publishes/s)",
        partial(run_topic, keys=50_000),
        headline="published_per_second",
        shown=("broker_us_per_publish", "mean_fan"),
        scales=True,
    ),
    Scenario(
        "selector_exchange_10k",
        "routing",
        "selector exchange, 10,000 bindings with customer = value",
        partial(run_conditions, type="x-selector"),
        scales=True,
        only=("embermq",),
    ),
    Scenario(
        "headers_exchange_10k",
        "routing",
        "headers exchange, 10,000 bindings with a value of a header",
        partial(run_conditions, type="headers"),
        scales=True,
    ),
    Scenario(
        "chained_bindings",
        "routing",
        "1,000 queues bound to a fanout exchange, each narrowed by a chained binding to one value",
        run_chained,
        scales=True,
        only=("embermq",),
    ),
    Scenario(
        "queues_1000",
        "routing",
        "1,000 queues in turn by key, consumers on all, 16 B",
        run_queues,
        scales=True,
    ),
]
