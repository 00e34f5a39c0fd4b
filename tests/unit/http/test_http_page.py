"""The start page, metrics and health checks."""

from __future__ import annotations

import re

import pytest

from embermq.http.page import duration
from tests.unit.http.desk import Desk, in_path

ROUTED = 'rabbitmq_global_messages_routed_total{protocol="amqp091"}'
SAMPLE = re.compile(r'[a-z_]+(\{([a-z_]+="([^"\\\n]|\\.)*",?)*\})? [0-9.e+-]+')


def test_names_on_the_page_are_text(desk: Desk) -> None:
    name = "<script>alert('x')</script>&\""
    desk.put(f"/api/queues/%2F/{in_path(name)}")
    reply = desk.ask("GET", "/")
    page = reply.body.decode()
    assert (reply.status, reply.content_type) == (200, "text/html; charset=utf-8")
    assert "<script" not in page
    assert "&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;&amp;&quot;" in page
    assert not re.search(r'(src|href)="(?!/)', page), "nothing comes from outside"


def test_the_page_of_many_queues_is_short(desk: Desk) -> None:
    queues = [{"name": f"q{number}", "vhost": "/", "durable": False} for number in range(500)]
    desk.ask("POST", "/api/definitions", {"queues": queues})
    page = desk.ask("GET", "/").body.decode()
    assert page.count("<tr>") == 201 and "The first 200 of 500." in page


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (59, "59 s"), (3600, "1 h"), (90_061, "1 d 1 h"), (61, "1 min 1 s")]
)
def test_durations(seconds: int, text: str) -> None:
    assert duration(seconds) == text


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


def test_an_alarm_fails_the_health_checks(desk: Desk) -> None:
    assert desk.get("/api/health/checks/alarms") == {"status": "ok"}
    assert desk.get("/api/aliveness-test/%2F") == {"status": "ok"}
    desk.broker.alarms.set("memory", True, "a test")
    for path in ("health/checks/alarms", "health/checks/local-alarms", "aliveness-test/%2F"):
        reply = desk.ask("GET", f"/api/{path}")
        assert reply.status == 503
        assert reply.json["alarms"] == [
            {"node": reply.json["alarms"][0]["node"], "resource": "memory", "reason": "a test"}
        ]
    assert desk.get("/api/nodes")[0]["mem_alarm"] is True
    message = {"routing_key": "q", "payload": "", "payload_encoding": "string", "properties": {}}
    assert desk.ask("POST", "/api/exchanges/%2F/amq.default/publish", message).status == 503


def test_listeners(desk: Desk) -> None:
    assert desk.get("/api/health/checks/port-listener/5672") == {"status": "ok", "port": 5672}
    assert desk.ask("GET", "/api/health/checks/port-listener/1").status == 503
    assert desk.ask("GET", "/api/health/checks/port-listener/x").status == 400
    assert desk.get("/api/health/checks/protocol-listener/AMQP091")["protocol"] == "amqp"
    assert desk.ask("GET", "/api/health/checks/protocol-listener/mqtt").status == 503
