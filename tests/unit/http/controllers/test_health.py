"""Health checks: alarms and listeners."""

from __future__ import annotations

from tests.support.http_api import Desk


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
