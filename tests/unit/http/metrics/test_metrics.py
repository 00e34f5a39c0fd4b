"""Metrics: RabbitMQ's names, numbers that are right, a format that Prometheus' own tool accepts."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator

import pika
import pytest

from embermq.store.histogram import Histogram
from tests.support.http_api import Desk
from tools.brokers import EmberBroker

ROUTED = 'rabbitmq_global_messages_routed_total{protocol="amqp091"}'
SAMPLE = re.compile(r'[a-z_]+(\{([a-z_]+="([^"\\\n]|\\.)*",?)*\})? [0-9.e+-]+')
# What the panels of RabbitMQ's Grafana dashboard "RabbitMQ-Overview" ask for, of RabbitMQ 4 and before; and
# the rules for alerts that RabbitMQ publishes with its operator for Kubernetes.
DASHBOARD = """
build_info identity_info erlang_uptime_seconds
queue_messages_ready queue_messages_unacked
global_messages_received_total global_messages_received_confirm_total global_messages_confirmed_total
global_messages_routed_total global_messages_unroutable_returned_total
global_messages_unroutable_dropped_total global_messages_redelivered_total global_messages_delivered_total
global_messages_delivered_consume_auto_ack_total global_messages_delivered_consume_manual_ack_total
global_messages_delivered_get_auto_ack_total global_messages_delivered_get_manual_ack_total
global_messages_get_empty_total global_messages_acknowledged_total global_publishers global_consumers
connections connections_opened_total connections_closed_total
channels channels_opened_total channels_closed_total consumers
queues queues_declared_total queues_created_total queues_deleted_total
resident_memory_limit_bytes process_resident_memory_bytes
disk_space_available_bytes disk_space_available_limit_bytes
process_max_fds process_open_fds process_max_tcp_sockets process_open_tcp_sockets
"""
OLDER_DASHBOARD = """
channel_messages_published_total channel_messages_confirmed_total channel_messages_unroutable_dropped_total
channel_messages_unroutable_returned_total channel_messages_redelivered_total
channel_messages_delivered_total channel_messages_delivered_ack_total channel_messages_acked_total
channel_get_total channel_get_ack_total channel_get_empty_total
channel_messages_unconfirmed channel_consumers queue_messages_published_total
"""
ALERT_RULES = """
alarms_memory_used_watermark alarms_free_disk_space_watermark alarms_file_descriptor_limit
disk_space_available_bytes disk_space_available_limit_bytes process_open_fds process_max_fds
process_open_tcp_sockets process_max_tcp_sockets connections connections_opened_total
connections_closed_total channel_messages_unroutable_dropped_total channel_messages_unroutable_returned_total
"""
ALERT_RULES_PER_OBJECT = ["queue_messages", "queue_consumers"]
# Not there: what it is about is not.
#   message_size_bytes (a histogram, RabbitMQ 4.1): would cost every message
#   raft_..., erlang_vm_..., erlang_mnesia_..., global_stream_error_... and protocol="stream"


@pytest.fixture(scope="module")
def broker() -> Iterator[EmberBroker]:
    """One that has seen a message of every kind."""
    with EmberBroker() as broker:
        with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
            channel = connection.channel()
            channel.queue_declare('a "queue"\\', durable=True)
            channel.queue_declare("stream", durable=True, arguments={"x-queue-type": "stream"})
            channel.basic_publish("", 'a "queue"\\', b"one")
            channel.basic_publish("", "nowhere", b"dropped")
            channel.confirm_delivery()
            channel.basic_publish("", 'a "queue"\\', b"two", pika.BasicProperties(delivery_mode=2))
            channel.basic_get('a "queue"\\', auto_ack=True)
            method, _, _ = channel.basic_get('a "queue"\\')
            channel.basic_ack(method.delivery_tag)
            channel.basic_get('a "queue"\\')
            channel.basic_publish("", 'a "queue"\\', b"stays")
            channel.queue_declare("gone")
            channel.queue_delete("gone")
            yield broker


def asked(broker: EmberBroker, path: str, login: str) -> urllib.request.Request:
    headers = {"Authorization": "Basic Z3Vlc3Q6Z3Vlc3Q="} if login else {}
    return urllib.request.Request(f"http://{broker.host}:{broker.http_port}{path}", headers=headers)


def scrape(broker: EmberBroker, path: str = "/metrics", login: str = "") -> str:
    with urllib.request.urlopen(asked(broker, path, login)) as response:
        assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
        return str(response.read().decode())


def values(text: str) -> dict[str, float]:
    """By name, without labels."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return {re.split("[ {]", line)[0]: float(line.rsplit(" ", 1)[1]) for line in lines}


def test_what_dashboards_ask_for_is_there(broker: EmberBroker) -> None:
    found = values(scrape(broker))
    wanted = (DASHBOARD + OLDER_DASHBOARD + ALERT_RULES).split()
    assert [name for name in wanted if f"rabbitmq_{name}" not in found] == []
    families = "queue_coarse_metrics,queue_consumer_count"
    detailed = scrape(broker, f"/metrics/detailed?family={families}", "guest")
    for name in ALERT_RULES_PER_OBJECT:
        assert f'rabbitmq_detailed_{name}{{vhost="/",queue="stream"}}' in detailed


def test_labels_by_which_dashboards_join(broker: EmberBroker) -> None:
    """Panels multiply everything by `identity_info`, chosen by cluster and endpoint; a table has versions."""
    for path, endpoint in (
        ("/metrics", "aggregated"),
        ("/metrics/per-object", "per-object"),
        ("/metrics/detailed?family=queue_metrics", "detailed"),
    ):
        lines = scrape(broker, path, "guest").splitlines()
        (identity,) = [line for line in lines if line.startswith("rabbitmq_identity_info{")]
        labels = dict(re.findall(r'(\w+)="([^"]*)"', identity))
        assert (
            labels["rabbitmq_endpoint"] == endpoint and labels["rabbitmq_node"] and labels["rabbitmq_cluster"]
        )
        (build,) = [line for line in lines if line.startswith("rabbitmq_build_info{")]
        assert {"rabbitmq_version", "erlang_version"} <= dict(re.findall(r'(\w+)="([^"]*)"', build)).keys()


def test_bytes_out_with_consumers() -> None:
    """Under the names that RabbitMQ 3.10 has for them, and as it counts: bodies only."""

    def told(queue: str) -> dict[str, int]:
        with urllib.request.urlopen(asked(broker, f"/api/queues/%2F/{queue}", "guest")) as response:
            view = json.load(response)
        keys = ("message_bytes", "message_bytes_ready", "message_bytes_unacknowledged")
        line = rf'^rabbitmq_queue_messages_(\w*)bytes{{vhost="/",queue="{queue}"}} (\d+)$'
        metrics = re.findall(line, scrape(broker, "/metrics/per-object", "guest"), re.MULTILINE)
        found = {kind.rstrip("_"): int(value) for kind, value in metrics}
        assert {"": view[keys[0]], "ready": view[keys[1]], "unacked": view[keys[2]]} == found
        return found

    with EmberBroker() as broker:
        with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            channel.queue_declare("stream", durable=True, arguments={"x-queue-type": "stream"})
            channel.queue_declare("q")
            for size in (1, 20, 300):
                headers = pika.BasicProperties(headers={"h": "v" * 99})
                channel.basic_publish("", "q", b"x" * size, headers)
                channel.basic_publish("", "stream", b"x" * size, headers)
            tags = [channel.basic_get("q")[0].delivery_tag for _ in range(2)]
            assert told("q") == {"": 321, "ready": 300, "unacked": 21}
            assert values(scrape(broker))["rabbitmq_queue_messages_unacked_bytes"] == 21
            channel.basic_ack(tags[1])
            channel.queue_declare("q", passive=True)
            assert told("q") == {"": 301, "ready": 300, "unacked": 1}
            channel.basic_qos(prefetch_count=2)
            channel.basic_consume("stream", lambda *_: None, arguments={"x-stream-offset": "first"})
            stream = told("stream")
            assert stream["unacked"] == 0 and stream["ready"] == stream[""] > 321
        assert told("q") == {"": 301, "ready": 301, "unacked": 0}, "its connection is gone"


def test_the_numbers_are_right(broker: EmberBroker) -> None:
    found = values(scrape(broker))
    expected = {
        "global_messages_received_total": 4,
        "global_messages_received_confirm_total": 2,
        "global_messages_confirmed_total": 2,
        "global_messages_routed_total": 3,
        "global_messages_unroutable_dropped_total": 1,
        "global_messages_unroutable_returned_total": 0,
        "global_messages_delivered_get_auto_ack_total": 1,
        "global_messages_delivered_get_manual_ack_total": 1,
        "global_messages_get_empty_total": 1,
        "global_messages_acknowledged_total": 1,
        "global_publishers": 1,
        "channel_messages_published_total": 4,
        "channel_messages_unroutable_dropped_total": 1,
        "channel_get_total": 1,
        "channel_get_ack_total": 1,
        "queue_messages_published_total": 3,
        "queue_messages_ready": 1,
        "queues": 2,
        "queues_created_total": 3,
        "queues_deleted_total": 1,
        "connections": 1,
        "channels": 1,
        "alarms_memory_used_watermark": 0,
    }
    assert {name: found[f"rabbitmq_{name}"] for name in expected} == expected
    assert found["embermq_sync_seconds_count"] >= 1
    assert found["embermq_turn_seconds_count"] >= 1


def test_each_thing_by_name(broker: EmberBroker) -> None:
    text = scrape(broker, "/metrics/per-object", "guest")
    assert 'rabbitmq_queue_messages_ready{vhost="/",queue="a \\"queue\\"\\\\"} 1\n' in text
    assert 'rabbitmq_stream_committed_offset{vhost="/",queue="stream"} 0\n' in text
    assert re.search(r'rabbitmq_channel_messages_published_total\{channel="127.0.0.1:.*"\} 4\n', text)
    assert 'queue="' not in scrape(broker), "sums have no names"


def test_some_families_of_some_virtual_hosts(broker: EmberBroker) -> None:
    path = "/metrics/detailed?family=queue_coarse_metrics&family=queue_consumer_count&vhost=%2F"
    found = values(scrape(broker, path, "guest"))
    assert found.keys() == {
        "rabbitmq_detailed_queue_messages_ready",
        "rabbitmq_detailed_queue_messages_unacked",
        "rabbitmq_detailed_queue_messages",
        "rabbitmq_detailed_queue_consumers",
        "rabbitmq_build_info",
        "rabbitmq_identity_info",
    }
    other = values(scrape(broker, "/metrics/detailed?family=queue_coarse_metrics&vhost=other", "guest"))
    assert other.keys() == {"rabbitmq_build_info", "rabbitmq_identity_info"}


def test_what_is_dropped_is_told_apart_from_dead_letters(desk: Desk) -> None:
    desk.put("/api/queues/%2F/short", {"arguments": {"x-max-length": 1}})
    letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "nowhere"}
    desk.put("/api/queues/%2F/letters", {"arguments": {"x-max-length": 1, **letters}})
    for name, count in (("short", 3), ("letters", 2)):
        for number in range(count):
            desk.publish(name, str(number))
    text = desk.ask("GET", "/metrics").body.decode()
    name = "rabbitmq_global_messages_dead_lettered_maxlen_total"
    labels = 'queue_type="rabbit_classic_queue",dead_letter_strategy='
    assert f'\n{name}{{{labels}"disabled"}} 2\n' in text
    assert f'\n{name}{{{labels}"at_least_once"}} 1\n' in text


def test_a_family_that_is_not_known(desk: Desk) -> None:
    assert desk.ask("GET", "/metrics/detailed?family=weather").status == 400


@pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool is missing: apt-get install prometheus"
)
@pytest.mark.parametrize("path", ["/metrics", "/metrics/per-object"])
def test_prometheus_has_no_complaint(broker: EmberBroker, path: str) -> None:
    done = subprocess.run(
        ["promtool", "check", "metrics"],
        input=scrape(broker, path, "guest").encode(),
        capture_output=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_histogram_counts_what_is_below_its_bounds() -> None:
    histogram = Histogram((0.1, 1.0))
    for value in (0.05, 0.1, 0.5, 2.0):
        histogram.observe(value)
    assert (histogram.counts, histogram.count, histogram.sum) == ([2, 1, 1], 4, 2.65)


def test_metrics_have_the_form_and_the_numbers(desk: Desk) -> None:
    desk.put("/api/queues/%2F/q")
    desk.publish("q", "x")
    text = desk.ask("GET", "/metrics", login="").body.decode()
    typed: set[str] = set()
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            name = line.split()[2]
            assert name not in typed
            typed.add(name)
        elif not line.startswith("# HELP "):
            assert SAMPLE.fullmatch(line), line
            name = re.split("[ {]", line)[0]
            assert name in typed or re.sub("_(bucket|sum|count)$", "", name) in typed
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert values["rabbitmq_queues"] == "1"
    assert values["rabbitmq_queue_messages_ready"] == "1"
    assert values[ROUTED] == "1"
    assert int(values["rabbitmq_process_resident_memory_bytes"]) > 1_000_000


def test_counters_never_go_down(desk: Desk) -> None:
    for path in ("/api/queues/v/q", "/api/vhosts/v"):
        desk.ask("PUT", "/api/vhosts/v")
        desk.put("/api/queues/v/q")
        message = {"routing_key": "q", "payload": "", "payload_encoding": "string", "properties": {}}
        desk.ask("POST", "/api/exchanges/v/amq.default/publish", message)
        before = desk.ask("GET", "/metrics").body.decode()
        assert desk.ask("DELETE", path).status == 204
        after = desk.ask("GET", "/metrics").body.decode()
        for line in before.splitlines():
            if line.startswith(("rabbitmq_global_", "embermq_messages_settled")):
                assert line in after
    assert f"{ROUTED} 2\n" in after
