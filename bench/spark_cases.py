"""Ways of reading and writing with Spark, each beside what it has to be compared with.

Streaming queries are measured from the begin of their second batch to the end of the last one, everything
else as a whole. One task, `local[2]`; rows go nowhere (`noop`), or into a queue, confirmed.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from statistics import median
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from bench.machine import children, tree_seconds
from bench.spark_sources import BATCH_ROWS, SCHEMA
from embermq.client import Outgoing, Properties, connect
from embermq.wire.table import Timestamp
from tools.brokers import EmberBroker

SIZE = 100
BATCHES = 100  # of BATCH_ROWS, times the scale
RICH = Properties(
    content_type="application/json",
    headers={"tenant": "acme", "attempt": 1, "trace": "4bf92f3577b34da6a3ce929d0e0e4736"},
    delivery_mode=2,
    correlation_id="c-1",
    message_id="m-1",
    timestamp=Timestamp(1_770_000_000),
    type="order.created",
    app_id="shop",
)
NUMBERS = '"id":12345,"customer":"customer 17","total":99.95,"paid":true'
JSON = ("{" + NUMBERS + "}").encode()
JSON_DATES = ("{" + NUMBERS + ',"day":"2026-11-18","at":"2026-11-18T13:14:15.123456Z"}').encode()
FIELDS = "id int, customer string, total double, paid boolean"
DATE_FIELDS = f"{FIELDS}, day date, at timestamp"


@dataclass
class Case:
    """What is measured, what it is to be compared with (another case), and how."""

    name: str
    beside: str
    work: Callable[[Rig], float]


class Rig:
    """A Spark and a broker."""

    def __init__(self, spark: SparkSession, broker: EmberBroker, batches: int) -> None:
        self.spark = spark
        spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", 1_000_000)  # all
        self.broker = broker
        self.url = broker.url
        self.batches = batches
        self.count = batches * BATCH_ROWS
        self.filled: set[str] = set()
        self.spent: list[float] = []

    def busy_seconds(self) -> tuple[float, float, float]:
        """CPU time so far: of Java, of Spark's workers in Python, of the broker."""
        gateway: Any = self.spark.sparkContext._gateway
        workers = sum(map(tree_seconds, children(gateway.proc.pid)))
        return tree_seconds(gateway.proc.pid) - workers, workers, self.broker.cpu_seconds()

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Keeps what is spent meanwhile: microseconds of CPU time for each row."""
        before = self.busy_seconds()
        yield
        pairs = zip(before, self.busy_seconds(), strict=True)
        self.spent = [(after - begun) / self.count * 1e6 for begun, after in pairs]

    # -- what is read

    def stream(self, name: str, body: bytes, properties: Properties | None = None) -> str:
        """A stream with so many messages; made when it is first asked for."""
        if name not in self.filled:
            self.fill(name, body, properties, {"x-queue-type": "stream"})
            self.filled.add(name)
        return name

    def fill(
        self, name: str, body: bytes, properties: Properties | None, arguments: dict[str, object] | None
    ) -> None:
        with connect(self.url) as connection, connection.channel() as channel:
            channel.queue_declare(name, durable=True, arguments=arguments)
            message = Outgoing(body, name, properties=properties or Properties(delivery_mode=2))
            for _ in range(self.batches):
                channel.publish_batch([message] * BATCH_ROWS)

    def read(self, queue: str, schema: str = "", **options: str) -> DataFrame:
        reader = self.spark.read.format("amqp").option("url", self.url).option("queue", queue)
        return (reader.options(**options).schema(schema) if schema else reader.options(**options)).load()

    def timed(self, frame: DataFrame) -> float:
        began = time.perf_counter()
        with self.counting():
            frame.write.format("noop").mode("overwrite").save()
        return self.count / (time.perf_counter() - began)

    def read_stream(self, name: str, body: bytes, schema: str, properties: Properties | None = None) -> float:
        return self.timed(self.read(self.stream(name, body, properties), schema))

    def read_json(self, name: str, body: bytes, fields: str) -> float:
        return self.timed(self.read(self.stream(name, body), fields, format="json"))

    def from_json(self, name: str, body: bytes, fields: str) -> float:
        frame = self.read(self.stream(name, body), "body string", format="text")
        return self.timed(frame.select(sql.from_json("body", fields).alias("row")).select("row.*"))

    # -- as a streaming query

    def query(self, frame: DataFrame) -> float:
        with tempfile.TemporaryDirectory(prefix="embermq-bench-") as checkpoint, self.counting():
            writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
            query = writer.start()
            try:
                done = 0
                while done < self.count:
                    query.processAllAvailable()
                    done = sum(progress.numInputRows for progress in query.recentProgress)
                progress = [one for one in query.recentProgress if one.numInputRows]
            finally:
                query.stop()
        begun = [datetime.fromisoformat(one.timestamp).timestamp() for one in progress]
        seconds = begun[-1] + progress[-1].durationMs["triggerExecution"] / 1000 - begun[1]
        return sum(one.numInputRows for one in progress[1:]) / seconds

    def queue(self, form: str = "amqp", **options: str) -> float:
        self.fill("bench-queue", b"x" * SIZE, None, None)
        reader = self.spark.readStream.format(form).option("url", self.url).option("queue", "bench-queue")
        try:
            return self.query(reader.options(**options).schema(SCHEMA).load())
        finally:
            with connect(self.url) as connection, connection.channel() as channel:
                channel.queue_delete("bench-queue")

    def memory_query(self) -> float:
        reader = self.spark.readStream.format("memory_rows").option("size", SIZE)
        return self.query(reader.option("count", self.count).option("batch", 10 * BATCH_ROWS).load())

    # -- writing

    def write(self, form: str, *columns: str, **options: str) -> float:
        reader = self.spark.read.format("memory_rows").option("size", SIZE).option("count", self.count)
        frame = reader.option("parts", 1).load().selectExpr(*columns)
        target = "bench-target"
        with connect(self.url) as connection, connection.channel() as channel:
            channel.queue_declare(target, durable=True, arguments={"x-deduplication": True})
            writer = frame.write.format(form).option("url", self.url).option("routingKey", target)
            began = time.perf_counter()
            with self.counting():
                writer.options(**options).mode("append").save()
            rate = self.count / (time.perf_counter() - began)
            channel.queue_delete(target)
        return rate


ALL = ""  # the schema of the source itself
PROPERTIES = (
    "body",
    "'application/json' as content_type",
    "cast(offset as string) as message_id",
    "'order.created' as type",
    "map('tenant', 'acme', 'attempt', '1') as headers",
)
ROW = ("offset as id", "'customer 17' as customer", "99.95D as total", "true as paid")
DATED_ROW = (*ROW, "date'2026-11-18' as day", "timestamp'2026-11-18 13:14:15.123456' as at")
BODY = b"x" * SIZE

CASES = (
    Case("stream, body only", "", lambda rig: rig.read_stream("plain", BODY, "body binary")),
    Case("stream, all columns", "stream, body only", lambda rig: rig.read_stream("plain", BODY, ALL)),
    Case(
        "stream, body only, with properties and headers",
        "",
        lambda rig: rig.read_stream("rich", BODY, "body binary", RICH),
    ),
    Case(
        "stream, all columns, with properties and headers",
        "stream, body only, with properties and headers",
        lambda rig: rig.read_stream("rich", BODY, ALL, RICH),
    ),
    Case("rows of memory, streaming", "", lambda rig: rig.memory_query()),
    Case("queue with pika, streaming", "rows of memory, streaming", lambda rig: rig.queue("pika_rows")),
    Case("queue at least once, streaming", "rows of memory, streaming", lambda rig: rig.queue()),
    Case(
        "queue exactly once, streaming",
        "rows of memory, streaming",
        lambda rig: rig.queue(delivery="exactly-once"),
    ),
    Case("JSON by from_json", "", lambda rig: rig.from_json("json", JSON, FIELDS)),
    Case("JSON", "JSON by from_json", lambda rig: rig.read_json("json", JSON, FIELDS)),
    Case("JSON with dates by from_json", "", lambda rig: rig.from_json("dates", JSON_DATES, DATE_FIELDS)),
    Case("JSON with dates", "JSON", lambda rig: rig.read_json("dates", JSON_DATES, DATE_FIELDS)),
    Case("written to nowhere", "", lambda rig: rig.write("memory_rows", "body")),
    Case("written", "written to nowhere", lambda rig: rig.write("amqp", "body")),
    Case(
        "written with properties and headers",
        "written to nowhere",
        lambda rig: rig.write("amqp", *PROPERTIES),
    ),
    Case(
        "written exactly once",
        "written to nowhere",
        lambda rig: rig.write("amqp", "body", deduplicate="true", writerId=f"run {time.time()}"),
    ),
    Case("written as JSON", "written to nowhere", lambda rig: rig.write("amqp", *ROW, format="json")),
    Case(
        "written as JSON with dates",
        "written to nowhere",
        lambda rig: rig.write("amqp", *DATED_ROW, format="json"),
    ),
)


def measured(spark: SparkSession, broker: EmberBroker, scale: float, runs: int, wanted: str) -> list[str]:
    """The lines of a table: medians of the cases whose names hold `wanted`, in turns."""
    rig = Rig(spark, broker, max(int(BATCHES * scale), 2))
    named = {case.name: case for case in CASES}
    chosen = [case for case in CASES if wanted in case.name]
    chosen = [case for case in CASES if case in chosen or case.name in {one.beside for one in chosen}]
    rates: dict[str, list[float]] = {case.name: [] for case in chosen}
    spent: dict[str, list[list[float]]] = {case.name: [] for case in chosen}
    for number in range(runs + 1):
        for case in chosen:
            found = case.work(rig)
            print(f"{case.name}: {found:,.0f} rows/s{'' if number else ' (warming up)'}", flush=True)
            if number:
                rates[case.name].append(found)
                spent[case.name].append(rig.spent)
    middle = {name: median(found) for name, found in rates.items()}
    lines = [
        "| | rows/s | of | | Java, us/row | Python | broker |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, rate in middle.items():
        beside = named[name].beside
        share = f"{rate / middle[beside]:.0%}" if beside else ""
        costs = [f"{median(one):.2f}" for one in zip(*spent[name], strict=True)]
        lines.append(f"| {' | '.join([name, f'{rate:,.0f}', beside, share, *costs])} |")
    return lines
