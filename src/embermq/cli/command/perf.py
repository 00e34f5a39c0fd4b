"""`embermq perf`: a load test of the broker with our own client: publishers, consumers, rates and latency."""

from __future__ import annotations

import argparse
import struct
import threading
import time
from typing import Any

from embermq.cli.api import Api
from embermq.cli.command.messages import AMQP_URL, connected
from embermq.cli.commands import VHOST, Commands, add_command, argument
from embermq.cli.errors import CommandFailed
from embermq.cli.output import Column, Output
from embermq.cli.parser import COUNT, SECONDS, number

STAMP = struct.Struct(">d")
BATCH = 500
SAMPLES_MAX = 200_000
RESULT: list[Column] = [
    ("published", "published"),
    ("consumed", "consumed"),
    ("published/s", lambda row: round(row["published_per_second"])),
    ("consumed/s", lambda row: round(row["consumed_per_second"])),
    ("latency median", lambda row: milliseconds(row["latency_ms"].get("p50"))),
    ("latency 99 %", lambda row: milliseconds(row["latency_ms"].get("p99"))),
    ("latency max", lambda row: milliseconds(row["latency_ms"].get("max"))),
]


def milliseconds(value: object) -> str:
    return "" if value is None else f"{value:,.2f} ms"


def add_perf(commands: Commands) -> None:
    add_command(
        commands,
        "perf",
        perf,
        "measure the broker: publish and consume as fast as it goes, or at a given rate",
        argument("--publishers", metavar="N", type=COUNT, default=1, help="connections that publish (1)"),
        argument("--consumers", metavar="N", type=COUNT, default=1, help="connections that consume (1)"),
        argument("--size", metavar="BYTES", type=number(STAMP.size), default=100, help="of a body (100)"),
        argument("--seconds", metavar="S", type=SECONDS, default=10.0, help="how long (10)"),
        argument("--rate", metavar="N", type=COUNT, help="messages per second of each publisher (no limit)"),
        argument("--durable", action="store_true", help="a durable queue and persistent messages"),
        argument("--type", choices=["classic", "quorum", "stream"], help="kind of queue (classic)"),
        argument("--queue", metavar="Q", help="use this queue, and leave it (else one of its own)"),
        argument("--no-confirms", action="store_true", help="publish without confirms"),
        argument("--auto-ack", action="store_true", help="consume without acknowledgements"),
        VHOST,
        AMQP_URL,
    )


class Run:
    """What all threads of a measurement share."""

    def __init__(self, options: argparse.Namespace, queue: str) -> None:
        self.options = options
        self.queue = queue
        self.stop = threading.Event()
        self.published = [0] * options.publishers
        self.consumed = [0] * options.consumers
        self.latencies: list[float] = []
        self.failures: list[Exception] = []
        self.is_blocked = False

    def guarded(self, work: Any, *arguments: Any) -> None:
        try:
            work(*arguments)
        except Exception as error:
            self.failures.append(error)
            self.stop.set()

    def blocked(self, reason: str) -> None:
        self.is_blocked = True
        self.failures.append(
            CommandFailed(f"the broker takes no messages now ({reason}): nothing to measure")
        )
        self.stop.set()

    def publish(self, connection: Any, index: int) -> None:
        from embermq.client import Properties

        options = self.options
        properties = Properties(delivery_mode=2 if options.durable else 1).encode()
        filling = bytes(max(options.size - STAMP.size, 0))
        batch = BATCH if options.rate is None else max(1, min(BATCH, options.rate // 100))
        channel = connection.channel(confirms=not options.no_confirms)
        begun = time.monotonic()
        waiting: list[Any] = []
        while not self.stop.is_set():
            body = STAMP.pack(time.monotonic()) + filling
            waiting.append(channel.publish_batch_soon([body] * batch, self.queue, properties=properties))
            self.published[index] += batch
            if len(waiting) > 10 and not options.no_confirms:
                waiting.pop(0).wait(60)
            if options.rate is not None:
                ahead_s = self.published[index] / options.rate - (time.monotonic() - begun)
                if ahead_s > 0:
                    self.stop.wait(ahead_s)
        if not options.no_confirms:
            for confirmation in waiting:
                confirmation.wait(60)

    def consume(self, connection: Any, index: int) -> None:
        options = self.options
        channel = connection.channel(prefetch=None if options.auto_ack else 2000, confirms=False)
        consumer = channel.consume(self.queue, no_ack=options.auto_ack)
        while not self.stop.is_set():
            messages = consumer.fetch(1000, 0.2)
            if not messages:
                continue
            now = time.monotonic()
            if len(self.latencies) < SAMPLES_MAX:
                self.latencies += [now - STAMP.unpack_from(message.body)[0] for message in messages[:10]]
            self.consumed[index] += len(messages)
            if not options.auto_ack:
                consumer.ack(messages)


def perf(api: Api, output: Output, options: argparse.Namespace) -> None:
    main = connected(api, options)
    channel = main.channel()
    queue = options.queue or f"embermq-perf-{int(time.time())}"
    if not options.queue:
        arguments = {"x-queue-type": options.type} if options.type else {}
        durable = options.durable or options.type in ("quorum", "stream")
        channel.queue_declare(queue, durable=durable, arguments=arguments)
    run = Run(options, queue)
    connections = [connected(api, options) for _ in range(options.publishers + options.consumers)]
    works = [(run.publish, index) for index in range(options.publishers)]
    works += [(run.consume, index) for index in range(options.consumers)]
    threads = [
        threading.Thread(target=run.guarded, args=(work, connection, index), daemon=True)
        for (work, index), connection in zip(works, connections, strict=True)
    ]
    for connection in connections:
        connection.on_blocked = run.blocked
    begun = time.monotonic()
    try:
        for thread in threads:
            thread.start()
        watch(run, output, begun)
    finally:
        run.stop.set()
        elapsed_s = time.monotonic() - begun
        if not run.is_blocked:  # else the broker would not answer
            for thread in threads:
                thread.join(60)
        for connection in connections:
            if run.is_blocked:
                connection.abort()
            else:
                connection.close()
        if not options.queue:
            channel.queue_delete(queue)
        main.close()
    if run.failures:
        raise CommandFailed(str(run.failures[0]))
    output.one(result(run, elapsed_s), RESULT)


def watch(run: Run, output: Output, begun: float) -> None:
    """Show how it goes, until the time is over."""
    total_s = run.options.seconds
    with output.progress("measuring", int(total_s)) as advance:
        while not run.stop.is_set() and (left_s := begun + total_s - time.monotonic()) > 0:
            run.stop.wait(min(left_s, 0.5))
            advance(int(time.monotonic() - begun))


def result(run: Run, elapsed_s: float) -> dict[str, Any]:
    published, consumed = sum(run.published), sum(run.consumed)
    times = sorted(run.latencies)
    latency = {}
    if times:
        latency = {
            "p50": times[len(times) // 2] * 1000,
            "p99": times[min(int(len(times) * 0.99), len(times) - 1)] * 1000,
            "max": times[-1] * 1000,
        }
    return {
        "seconds": elapsed_s,
        "published": published,
        "consumed": consumed,
        "published_per_second": published / elapsed_s,
        "consumed_per_second": consumed / elapsed_s,
        "latency_ms": latency,
    }
