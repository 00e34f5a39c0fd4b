"""The start page, metrics and health checks."""

from __future__ import annotations

import re

import pytest

from embermq.http.console.words import duration, many, size
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
    assert not re.search(r'(src|href)="(?!/[^/]|/"|data:)', page), "nothing comes from outside"


def test_the_page_of_many_queues_is_short(desk: Desk) -> None:
    queues = [{"name": f"q{number}", "vhost": "/", "durable": False} for number in range(500)]
    desk.ask("POST", "/api/definitions", {"queues": queues})
    page = desk.ask("GET", "/").body.decode()
    assert page.count("<tr>") == 101 and "Page 1 of 5" in page and "q499" not in page
    assert "q499" in desk.ask("GET", "/?page=9").body.decode(), "there is no page after the last"
    for nonsense in (
        "page=0",
        "page=x",
        "page=99999999999",
        "sort=%3Cb%3E",
        "every=%22",
        "name=%22%3E%3Cb%3E",
    ):
        reply = desk.ask("GET", f"/?{nonsense}")
        assert reply.status == 200 and b"<b>" not in reply.body.partition(b"<dl>")[2], nonsense


def test_the_page_shows_what_its_user_may_see(desk: Desk) -> None:
    desk.ask("PUT", "/api/vhosts/side")
    desk.put("/api/queues/side/covert")
    desk.put("/api/pipelines/side/secret-work", {"state": "running"})
    page = desk.ask("GET", "/").body.decode()
    assert "covert" in page and "secret-work" in page and " of memory" in page and "amqp on port" in page
    page = desk.ask("GET", "/", login="management:secret").body.decode()
    assert "covert" not in page and "secret-work" not in page
    assert " of memory" not in page and "amqp on port" not in page, "what the API tells to monitors only"


def test_only_browsers_are_refused_with_a_page(desk: Desk) -> None:
    browser = {"accept": "text/html,application/xhtml+xml"}
    for path, login, status in (("/", "", 401), ("/", "none:secret", 401), ("/nothing", "", 404)):
        reply = desk.ask("GET", path, login=login, headers=browser)
        assert (reply.status, reply.content_type) == (status, "text/html; charset=utf-8")
        assert ("www-authenticate" in reply.headers) == (status == 401), "so that one can try again"
        assert desk.ask("GET", path, login=login).json["reason"]
    assert desk.ask("GET", "/api/queues", login="", headers=browser).json["reason"] == "Login failed"


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (59, "59 s"), (3600, "1 h"), (90_061, "1 d 1 h"), (61, "1 min 1 s")]
)
def test_durations(seconds: int, text: str) -> None:
    assert duration(seconds) == text


def test_numbers_and_sizes() -> None:
    assert [many(count) for count in (0, 0.25, 2.5, 10.4, 12345)] == ["0", "0.2", "2.5", "10", "12,345"]
    assert [size(count) for count in (0, 1023, 2048, 5.5 * 2**20, 300 * 2**20, 2**41)] == [
        "0 bytes",
        "1,023 bytes",
        "2 KiB",
        "5.5 MiB",
        "300 MiB",
        "2.0 TiB",
    ]


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
