"""Pipelines: from a file, and the ready-made ones, on a real Spark and a real broker."""

from __future__ import annotations

import json
import os
import runpy
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from embermq.cli.api import Api
from embermq.client import Channel, Outgoing, Properties, connect
from embermq.testing import EmbeddedBroker
from embermq.wire.table import Timestamp
from pyspark_embermq.errors import AMQPSourceError, Missing
from pyspark_embermq.pipelines import project, reports, spec, state
from pyspark_embermq.pipelines import report_page as pages
from pyspark_embermq.pipelines import run as running
from pyspark_embermq.pipelines.checkpoint_guard import FILE, changes
from pyspark_embermq.pipelines.heartbeat import Teller
from pyspark_embermq.pipelines.preflight import check_pipeline
from pyspark_embermq.pipelines.sql_tables import check, query
from tests.spark.conftest import declare_stream
from tests.spark.test_reading_streams import numbers

PIPELINE = """
name = "large"
checkpoint = "{checkpoint}"

[source]
url = "{url}"
queue = "orders"
body = "json"
schema = "id int, total double"

[transform]
sql = "select cast(id as string) as body from source where total > 10"

[sink]
url = "{url}"
routingKey = "large"
"""
# Spark as a content-based router: enriched from a table, sent on by what is in it.
ROUTE = """
name = "route"
checkpoint = "{checkpoint}"

[source]
url = "{url}"
queue = "orders"
body = "json"
schema = "id int, total double, _message_id string"

[tables.customers]
format = "csv"
path = "{customers}"
schema = "id int, country string"

[transform]
sql = '''
select concat('orders.', country) as routing_key, cast(id as string) as body, _message_id as message_id,
       map('vip', cast(total > 20 as string)) as headers
from source join customers using (id)
'''

[sink]
url = "{url}"
exchange = "countries"
"""


def test_a_pipeline_from_a_file(
    spark: SparkSession, channel: Channel, broker: EmbeddedBroker, vhost: str, url: str, tmp_path: Path
) -> None:
    orders = [json.dumps({"id": number, "total": number * 5}).encode() for number in range(6)]
    declare_stream(channel, "orders", orders)
    channel.queue_declare("large")
    file = tmp_path / "large.toml"
    file.write_text(PIPELINE.format(url=url, checkpoint=tmp_path / "checkpoint"))
    pipeline = spec.load(file)
    lines: list[str] = []
    ended = running.run(
        spark, pipeline.name, lambda s, once: running.start(s, pipeline, once), once=True, show=lines.append
    )
    assert sorted(message.body for message in broker.messages("large", vhost)) == [b"3", b"4", b"5"]
    assert (ended.state, ended.rows, ended.lag) == ("ended", 6, 0)
    assert any("6 rows" in line for line in lines)
    assert [found.name for found in state.all_states()] == ["large"]
    with pytest.raises(AMQPSourceError, match="does not run: it ended"):
        state.stop("large")


def test_a_route_joins_and_sends_on(
    spark: SparkSession, channel: Channel, broker: EmbeddedBroker, vhost: str, url: str, tmp_path: Path
) -> None:
    orders = [json.dumps({"id": number, "total": number * 10}).encode() for number in range(4)]
    declare_stream(channel, "orders", orders)
    channel.exchange_declare("countries", "topic")
    for country in ("de", "fr"):
        channel.queue_declare(country)
        channel.queue_bind(country, "countries", f"orders.{country}")
    (tmp_path / "customers.csv").write_text("1,de\n2,fr\n3,de\n")
    file = tmp_path / "route.toml"
    file.write_text(ROUTE.format(url=url, checkpoint=tmp_path / "c", customers=tmp_path / "customers.csv"))
    running.start(spark, spec.load(file), once=True).awaitTermination()
    german, french = broker.messages("de", vhost), broker.messages("fr", vhost)
    assert sorted((message.body, message.headers["vip"]) for message in german) == [
        (b"1", "false"),
        (b"3", "true"),
    ]
    assert [message.routing_key for message in french] == ["orders.fr"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "there is no \\[source\\]"),
        ("[source]\n", "there is no \\[sink\\]"),
        ("[source]\n[sink]\n", "checkpoint is missing"),
        ("[source]\n[sink]\ncheckpoint = 1\n[more]", "unknown key 'more'"),
        ("name = '/'\n[source]\n[sink]\n", "name is '/'"),
        ("trigger = 'often'\n[source]\n[sink]\n", "trigger is 'often'; expected for example '10 seconds'"),
        ("output_mode = 'x'\n[source]\n[sink]\n", "output_mode is 'x'"),
        ("watermark = 1\ncheckpoint='x'\n[source]\n[sink]\n", "watermark: expected"),
        ("checkpoint='x'\n[source]\nqueue = ['a']\n[sink]\n", "source.queue is \\['a'\\]; expected text"),
        ("checkpoint='x'\n[source]\n[sink]\n[transform]\nsq = 'x'", "unknown key transform.sq"),
        ("checkpoint='x'\n[source]\n[sink]\n[tables]\na = 1", "tables: expected \\[tables.NAME\\]"),
        ("checkpoint='x'\n[source]\n[sink]\n[tables.source]\n", "tables.source: expected letters"),
        ("nonsense", "not TOML"),
    ],
)
def test_a_wrong_file_is_told_in_a_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    file = tmp_path / "p.toml"
    file.write_text(text)
    with pytest.raises(AMQPSourceError, match=sentence):
        spec.load(file)


def test_a_pipeline_that_fails_says_why(spark: SparkSession, url: str, tmp_path: Path) -> None:
    file = tmp_path / "large.toml"
    file.write_text(PIPELINE.format(url=url, checkpoint=tmp_path / "checkpoint"))
    pipeline = spec.load(file)
    with pytest.raises(AMQPSourceError, match="no queue 'orders'"):
        running.run(spark, "large", lambda s, once: running.start(s, pipeline, once), once=True)
    assert state.state_of("large").state == "failed"
    with pytest.raises(AMQPSourceError, match="no pipeline 'other' has run"):
        state.state_of("other")


def test_a_pipeline_outlives_an_absence_of_its_broker(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "large.toml"
    with EmbeddedBroker(persistent=True, process=True) as mortal:
        file.write_text(PIPELINE.format(url=mortal.url, checkpoint=tmp_path / "checkpoint"))
        pipeline = spec.load(file)

        def publish(*ids: int) -> None:
            with connect(mortal.url) as connection, connection.channel() as channel:
                channel.queue_declare("large", durable=True)
                channel.queue_declare("orders", durable=True, arguments={"x-queue-type": "stream"})
                channel.publish_batch([b'{"id": %d, "total": 20}' % number for number in ids], "orders")

        def live_and_die() -> None:
            """The broker's life, as the pipeline's states tell when it is time."""
            try:
                await_state(lambda found: found.rows == 2)
                mortal.kill()
                await_state(lambda found: found.state == state.WAITING)
                mortal.start()
                publish(3)
                await_state(lambda found: found.rows == 3 and found.state == state.RUNNING)
            finally:
                os.kill(os.getpid(), signal.SIGTERM)

        publish(1, 2)
        lines: list[str] = []
        with ThreadPoolExecutor() as pool:
            life = pool.submit(live_and_die)
            ended = running.run(
                spark,
                "large",
                lambda s, once: running.start(s, pipeline, once),
                once=False,
                show=lines.append,
                check=lambda: check_pipeline(pipeline),
            )
            life.result()
        assert (ended.state, ended.rows, ended.reason) == ("ended", 3, "")
        assert sorted(message.body for message in mortal.messages("large")) == [b"1", b"2", b"3"]
        assert any("goes on when the broker is back" in line for line in lines)


def await_state(is_so: Callable[[state.State], bool]) -> None:
    deadline = time.monotonic() + 120
    while not any(is_so(found) for found in state.all_states()):
        assert time.monotonic() < deadline, state.all_states()
        time.sleep(0.05)


def test_dead_letters(spark: SparkSession, channel: Channel, url: str, tmp_path: Path) -> None:
    channel.queue_declare("dead")
    channel.queue_declare(
        "work", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    )
    channel.publish_batch([b"a", b"b", b"c"], "work")
    for _ in range(3):
        message = channel.get("work")
        assert message is not None
        message.reject(requeue=False)
    channel.connection.flush()
    channel.queue_declare("work", passive=True)
    (row,) = reports.dead_letters(spark, url, "dead").collect()
    assert (row.queue, row.reason, row.routing_key, row.letters, row.deaths) == (
        "work",
        "rejected",
        "work",
        3,
        3,
    )
    assert row.since is not None and row.since <= row.last
    when = reports.by_minute(reports.deaths(spark, url, "dead"))
    assert sum(when.values()) == 3
    text = pages.page("Dead <letters>", [row.asDict()], "letters", when)
    assert "rejected" in text and "Dead &lt;letters&gt;" in text and "<rect" in text
    assert "nothing to report" in pages.page("x", [], "letters", {})


def test_bars_stand_for_as_much_time_as_they_must() -> None:
    minute = 1_700_000_040 // 60
    assert "A bar is 1 minute:" in pages.chart({minute: 3, minute + 1: 2})
    assert "A bar is 15 minutes:" in pages.chart({minute: 3, minute + 600: 2})
    year = pages.chart({minute: 3, minute + 365 * 1440: 2})
    assert "A bar is 1 week:" in year and 52 <= year.count("<rect") <= 54  # all of it
    decades = pages.chart({minute: 3, minute + 30 * 365 * 1440: 2})
    assert "weeks: from 2023" in decades and decades.count("<rect") <= pages.BARS_MAX
    assert pages.chart({}) == ""


@pytest.mark.parametrize(("largest", "top"), [(1, 1), (3, 3), (7, 8), (55_000, 60_000), (91, 100)])
def test_scales_end_at_round_numbers(largest: int, top: int) -> None:
    assert pages.round_up(largest) == top
    assert f">{top:,}</text>" in pages.chart({5: largest})


def test_a_new_project_works(spark: SparkSession, url: str, tmp_path: Path) -> None:
    files = project.create(tmp_path / "my-orders")
    assert [file.name for file in files] == ["my-orders.toml", "test_my_orders.py", "README.md"]
    program = runpy.run_path(str(files[1]))
    found = program["bodies_after_a_run"](spark, url, tmp_path / "checkpoint")
    assert found == [b'{"id":2,"total":150.0}']
    with pytest.raises(AMQPSourceError, match="is there already"):
        project.create(tmp_path / "my-orders")
    with pytest.raises(AMQPSourceError, match="expected letters"):
        project.create(tmp_path / "my orders")


def test_traffic_and_its_anomalies(spark: SparkSession, channel: Channel, url: str, tmp_path: Path) -> None:
    channel.queue_declare("s", durable=True, arguments={"x-queue-type": "stream"})
    for minute in range(20):
        at = Properties(timestamp=Timestamp(1_700_000_040 + 60 * minute), app_id="shop")
        channel.publish_batch([Outgoing(b"12345", properties=at)] * (100 if minute == 10 else 2), "s")
    frame = spark.read.format("amqp").option("url", url).option("queue", "s").load()
    rows = reports.with_anomalies(reports.traffic(frame)).orderBy("start").collect()
    assert [row.messages for row in rows] == [100 if minute == 10 else 2 for minute in range(20)]
    assert rows[0].bytes == 10 and rows[0].app_id == "shop" and rows[0].latency_seconds > 0
    assert [row.anomaly for row in rows] == [minute == 10 for minute in range(20)]
    running.run(
        spark,
        "traffic",
        lambda s, once: reports.start_traffic(
            s, url, "s", str(tmp_path / "out"), str(tmp_path / "checkpoint"), "1 minute", once
        ),
        once=True,
    )
    kept = spark.read.parquet(str(tmp_path / "out")).orderBy("start").collect()
    assert len(kept) >= 18  # the last ones wait for late messages
    assert [row.anomaly for row in kept] == [minute == 10 for minute in range(len(kept))]


def test_sql_over_queues_streams_and_archives(
    spark: SparkSession, channel: Channel, url: str, tmp_path: Path
) -> None:
    channel.queue_declare("q")
    channel.publish_batch(numbers(0, 4), "q")
    declare_stream(channel, "s", numbers(2, 6))
    spark.sql("SELECT 7 AS x").write.parquet(str(tmp_path / "kept"))
    text = f"""select q.body, (select max(x) from archive('{tmp_path / "kept"}')) as x
               from queue('q') q join stream('s') s on q.body = s.body order by 1"""
    assert [tuple(row) for row in query(spark, text, url).collect()] == [("2", 7), ("3", 7)]
    assert channel.queue_declare("q", passive=True).message_count == 4
    check(text, url)
    with pytest.raises(AMQPSourceError, match="name what to read"):
        check("select 1", url)
    with pytest.raises(Missing, match="no queue 'nobody' in vhost"):
        check("select * from stream ( 'nobody' )", url)


def test_what_a_changed_pipeline_will_do_is_said(
    spark: SparkSession, channel: Channel, url: str, tmp_path: Path
) -> None:
    declare_stream(channel, "orders", [b'{"id": 1, "total": 20}'])
    channel.queue_declare("large")
    file = tmp_path / "large.toml"
    text = PIPELINE.format(url=url, checkpoint=tmp_path / "checkpoint")
    file.write_text(text)
    assert changes(spec.load(file)) == []
    running.start(spark, spec.load(file), once=True).awaitTermination()
    assert changes(spec.load(file)) == []
    kept = (tmp_path / "checkpoint" / FILE).read_text()
    assert "guest" not in kept and url not in kept
    file.write_text(text.replace("total > 10", "total > 20").replace('"large"', '"larger"'))
    sql, sink = changes(spec.load(file))
    assert sql.startswith("sql has changed: the pipeline goes on where it was")
    assert sink.startswith("sink has changed: ") and "does not come again" in sink
    file.write_text(text.replace('queue = "orders"', 'queue = "orders"\nmaxRecordsPerTrigger = 5'))
    assert changes(spec.load(file)) == ["source has changed: the new options hold from now on"]
    file.write_text(text.replace('queue = "orders"', 'queue = "others"'))
    with pytest.raises(AMQPSourceError, match=r"source has changed .* Give it another checkpoint"):
        running.start(spark, spec.load(file), once=True)


def test_the_broker_is_told_how_a_pipeline_is(
    channel: Channel, broker: EmbeddedBroker, vhost: str, caplog: pytest.LogCaptureFixture
) -> None:
    api = Api(broker.http_url, "guest", "guest")
    teller = Teller(api.put, vhost)
    told = state.State("large", 1, lag=17, rows=6, rows_per_second=2.5)
    teller.tell(told)
    path = f"/api/pipelines/{vhost}/large"
    assert api.get(path)["lag"] == 17
    told.lag = 3
    teller.tell(told)  # too soon
    assert api.get(path)["lag"] == 17
    told.state = "ended"
    teller.tell(told)
    assert (api.get(path)["lag"], api.get(path)["state"]) == (3, "ended")
    status, metrics = api.exchange("GET", "/metrics/per-object", None)
    assert status == 200
    labels = f'{{vhost="{vhost}",pipeline="large"}}'.encode()
    for line in (b"running%s 0", b"failed%s 0", b"rows_total%s 6"):
        assert b"embermq_pipeline_" + line % labels + b"\n" in metrics
    lost = Teller(api.put, "no such vhost")
    for told.state in ("running", "failed"):
        lost.tell(told)
    api.close()
    assert len([line for line in caplog.messages if "does not take the state of pipeline" in line]) == 1
