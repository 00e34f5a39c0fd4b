"""Policies and parameters through the API: RabbitMQ's answers, as its version 3.10 gave them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.http_api import Desk

POLICY, OPERATOR = "/api/policies/%2F/p", "/api/operator-policies/%2F/p"


def policy(definition: object, **more: Any) -> dict[str, Any]:
    return {"pattern": "^q", "definition": definition, **more}


def complaint(desk: Desk, path: str, body: object) -> str:
    reply = desk.ask("PUT", path, body)
    assert reply.status == 400, reply
    reason = str(reply.reason)
    return reason.removeprefix("Validation failed\n\n").removesuffix("\n")


def test_set_seen_and_deleted(desk: Desk) -> None:
    for path in (POLICY, OPERATOR):
        desk.put(path, policy({"max-length": 10}))
        desk.put(path, policy({"max-length": 11}, priority=3), status=204)
        expected = {
            "vhost": "/",
            "name": "p",
            "pattern": "^q",
            "apply-to": "all",
            "definition": {"max-length": 11},
            "priority": 3,
        }
        parent = path.removesuffix("/p")
        assert desk.get(path) == expected
        assert desk.get(parent) == desk.get(parent.removesuffix("/%2F")) == [expected]
        assert desk.ask("DELETE", path).status == 204
        assert desk.ask("DELETE", path).status == desk.ask("GET", path).status == 404
        assert desk.get(parent) == []


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({}, "[{key_missing,pattern},{key_missing,definition}]"),
        ({"pattern": "x"}, "[{key_missing,definition}]"),
        (policy({}), "no policy provided"),
        (policy([1]), "definition must be a dictionary: [1]"),
        (policy({"max-length": 1}, pattern=5), "pattern should be a binary but was 5"),
        (policy({"max-length": 1}, priority="5"), 'priority should be a number, actually was <<"5">>'),
        (policy({"nonsense": 1}), '[{<<"nonsense">>,1}] are not recognised policy settings'),
        (policy({"max-priority": 5}), '[{<<"max-priority">>,5}] are not recognised policy settings'),
        (policy({"max-length": -1}), "-1 is not a valid maximum length"),
        (policy({"max-length": "x"}), '<<"x">> is not a valid maximum length'),
        (policy({"max-length": True}), "true is not a valid maximum length"),
        (policy({"expires": 0}), "0 is not a valid queue expiry"),
        (policy({"message-ttl": 1.5}), "1.5 is not a valid message TTL"),
        (policy({"overflow": "x"}), '<<"x">> is not a valid overflow value'),
        (policy({"dead-letter-exchange": 5}), "5 is not a valid dead letter exchange name"),
        (policy({"delivery-limit": -2}), "-2 is not a valid delivery limit"),
        (policy({"queue-version": 3}), "3 is not a valid queue-version value"),
        (policy({"max-age": "x"}), '<<"x">> is not a valid max age'),
        (
            policy({"ha-sync-mode": "automatic"}),
            "ha-mode must be specified to specify ha-params, ha-sync-mode or ha-promote-on-shutdown",
        ),
    ],
)
def test_complaints(desk: Desk, body: dict[str, Any], reason: str) -> None:
    assert complaint(desk, POLICY, body) == reason
    assert desk.get("/api/policies") == []


def test_patterns_and_what_they_apply_to(desk: Desk) -> None:
    wrong = complaint(desk, POLICY, policy({"max-length": 1}, pattern="("))
    assert wrong.startswith("pattern should be regular expression but is invalid: {")
    assert "too long" in complaint(desk, POLICY, policy({"max-length": 1}, pattern="^(?!x)a*a*a*a*a*a*b"))
    wrong = complaint(desk, POLICY, {**policy({"max-length": 1}), "apply-to": "foo"})
    assert wrong.startswith("apply-to 'foo' unrecognised; should be one of")
    for kind in ("all", "queues", "classic_queues", "quorum_queues", "streams", "exchanges"):
        desk.put(f"/api/policies/%2F/{kind}", {**policy({"max-length": 1}), "apply-to": kind})


def test_operators_limit_and_nothing_else(desk: Desk) -> None:
    reason = '[{<<"overflow">>,<<"drop-head">>}] are not recognised policy settings'
    assert complaint(desk, OPERATOR, policy({"max-length": 1, "overflow": "drop-head"})) == reason
    desk.put(OPERATOR, policy({"max-length": 1, "expires": 5, "message-ttl": 5, "delivery-limit": 1}))


def test_what_rabbitmq_takes_is_taken(desk: Desk) -> None:
    mirrored = {"ha-mode": "exactly", "ha-params": 2, "ha-sync-mode": "automatic", "queue-mode": "lazy"}
    desk.put(POLICY, policy(mirrored))
    desk.put("/api/queues/%2F/q", {"durable": True})
    desk.put("/api/queues/%2F/q4", {"durable": True, "arguments": {"x-queue-type": "quorum"}})
    assert desk.get("/api/queues/%2F/q")["policy"] == "p"
    assert desk.get("/api/queues/%2F/q4")["policy"] is None  # says more than a quorum queue understands


def test_by_type_of_queue(desk: Desk) -> None:
    desk.put("/api/policies/%2F/classic", {**policy({"max-length": 1}), "apply-to": "classic_queues"})
    desk.put("/api/policies/%2F/quorum", {**policy({"max-length": 2}), "apply-to": "quorum_queues"})
    desk.put("/api/queues/%2F/q", {"durable": True})
    desk.put("/api/queues/%2F/q4", {"durable": True, "arguments": {"x-queue-type": "quorum"}})
    desk.put("/api/exchanges/%2F/q", {"type": "direct"})
    assert desk.get("/api/queues/%2F/q")["policy"] == "classic"
    assert desk.get("/api/queues/%2F/q4")["policy"] == "quorum"
    assert desk.get("/api/exchanges/%2F/q")["policy"] is None


def test_who_may_see_them_and_who_may_change_them(desk: Desk) -> None:
    desk.put("/api/vhosts/elsewhere")
    path = "/api/policies/elsewhere/p"
    for role, seen, changed in (
        ("management", 401, 401),
        ("policymaker", 401, 401),
        ("administrator", 200, 201),
    ):
        login = f"{role}:secret"
        assert desk.ask("GET", "/api/policies/elsewhere", login=login).status == seen
        assert desk.ask("PUT", path, policy({"max-length": 1}), login=login).status == changed
    assert [p["name"] for p in desk.get("/api/policies", login="administrator:secret")] == ["p"]
    assert desk.get("/api/policies", login="management:secret") == []
    assert desk.ask("PUT", "/api/policies/nowhere/p", policy({"max-length": 1})).reason == "vhost_not_found"
    assert desk.ask("GET", "/api/policies/nowhere").status == 404


def test_they_go_with_their_virtual_host(desk: Desk) -> None:
    desk.put("/api/vhosts/brief")
    desk.put("/api/policies/brief/p", policy({"max-length": 1}))
    desk.put("/api/parameters/shovel/brief/s", {"value": {"src": "x"}})
    assert desk.ask("DELETE", "/api/vhosts/brief").status == 204
    desk.put("/api/vhosts/brief")
    assert desk.get("/api/policies/brief") == desk.get("/api/parameters/shovel/brief") == []


# -- parameters


def test_parameters(desk: Desk) -> None:
    path = "/api/parameters/shovel/%2F/s"
    desk.put(path, {"value": {"src-uri": "amqp://"}})
    desk.put(path, {"value": {"src-uri": "amqp://", "list": [1, "x", None is None]}}, status=204)
    [shown] = desk.get("/api/parameters")
    assert shown == desk.get(path) == desk.get("/api/parameters/shovel")[0]
    assert shown["component"] == "shovel" and shown["value"]["list"] == [1, "x", True]
    assert desk.get("/api/parameters/other/%2F") == []
    assert desk.ask("PUT", path, {}).reason == "[{key_missing,value}]"
    assert desk.ask("DELETE", path).status == 204
    assert desk.ask("GET", path).status == desk.ask("DELETE", path).status == 404


def test_policies_among_the_parameters(desk: Desk) -> None:
    desk.put(POLICY, policy({"max-length": 1}))
    desk.put(OPERATOR, policy({"max-length": 2}))
    assert [p["component"] for p in desk.get("/api/parameters")] == ["operator_policy"]
    assert [p["name"] for p in desk.get("/api/parameters/policy")] == ["p"]
    refused = desk.ask("PUT", "/api/parameters/policy/%2F/x", {"value": policy({"max-length": 1})})
    assert refused.reason == "policies may not be set using this method"
    desk.put("/api/parameters/operator_policy/%2F/x", {"value": policy({"max-length": 1})})
    assert desk.names("/api/operator-policies") == ["p", "x"]
    assert desk.ask("PUT", "/api/parameters/operator_policy/%2F/y", {"value": 5}).status == 400
    assert desk.ask("DELETE", "/api/parameters/operator_policy/%2F/x").status == 204
    assert desk.names("/api/operator-policies") == ["p"]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("/api/parameters/operator_policy/%2F/x", policy({"max-length": 1})),
        ("/api/parameters/vhost-limits/%2F/limits", {"max-queues": 1}),
        ("/api/global-parameters/cluster_name", "mine"),
    ],
)
def test_what_is_for_administrators_is_so_by_every_way(desk: Desk, path: str, value: object) -> None:
    body = {"value": value}
    assert desk.ask("PUT", path, body, login="policymaker:secret").status == 401
    assert desk.ask("GET", path, login="policymaker:secret").status == 404
    assert desk.ask("PUT", path, body, login="administrator:secret").status == 201
    assert desk.ask("DELETE", path, login="policymaker:secret").status == 401
    assert (
        desk.get(path)["value"] == {**value, "priority": 0, "apply-to": "all"} if "policy" in path else value
    )
    assert desk.ask("DELETE", path, login="administrator:secret").status == 204


def test_a_policymaker_may_set_other_parameters(desk: Desk) -> None:
    for path in ("/api/parameters/shovel/%2F/s", "/api/global-parameters/g", "/api/policies/%2F/p"):
        body = {"value": {}, **policy({"max-length": 1})}
        assert desk.ask("PUT", path, body, login="policymaker:secret").status == 201


def test_limits_of_a_virtual_host_are_a_parameter(desk: Desk) -> None:
    path = "/api/parameters/vhost-limits/%2F/limits"
    desk.put(path, {"value": {"max-queues": 5, "max-connections": 7}})
    assert desk.get("/api/vhost-limits/%2F")[0]["value"] == {"max-queues": 5, "max-connections": 7}
    desk.put(path, {"value": {"max-queues": 6}}, status=204)
    assert desk.get("/api/vhost-limits/%2F")[0]["value"] == {"max-queues": 6}
    assert desk.ask("PUT", path, {"value": {"max-queues": "x"}}).status == 400
    assert desk.ask("PUT", "/api/parameters/vhost-limits/%2F/else", {"value": {}}).status == 400
    assert desk.ask("DELETE", path).status == 204
    assert desk.get("/api/vhost-limits") == []


def test_a_clusters_name_is_checked_by_every_way(desk: Desk) -> None:
    assert desk.ask("PUT", "/api/global-parameters/cluster_name", {"value": "a\nb"}).status == 400
    document = {"global_parameters": [{"name": "cluster_name", "value": 5}]}
    assert desk.ask("POST", "/api/definitions", document).status == 400


def test_global_parameters(desk: Desk) -> None:
    path = "/api/global-parameters/g"
    desk.put(path, {"value": {"a": 1}})
    desk.put(path, {"value": 5}, status=204)
    assert desk.get(path) == {"name": "g", "value": 5}
    assert desk.get("/api/global-parameters") == [{"name": "g", "value": 5}]
    assert desk.ask("PUT", path, {}).reason == "[{key_missing,value}]"
    assert desk.ask("DELETE", path).status == 204
    assert desk.ask("GET", path).status == desk.ask("DELETE", path).status == 404


# -- definitions


def test_definitions_carry_them(desk: Desk) -> None:
    desk.put(POLICY, policy({"max-length": 1}))
    desk.put(OPERATOR, policy({"max-length": 2}))
    desk.put("/api/parameters/shovel/%2F/s", {"value": {"a": 1}})
    desk.put("/api/global-parameters/g", {"value": [1]})
    everything, one = desk.get("/api/definitions"), desk.get("/api/definitions/%2F")
    for path in (POLICY, OPERATOR, "/api/parameters/shovel/%2F/s", "/api/global-parameters/g"):
        assert desk.ask("DELETE", path).status == 204
    assert desk.ask("POST", "/api/definitions", everything).status == 204
    assert desk.get("/api/definitions") == everything
    assert "vhost" not in one["policies"][0]
    desk.put("/api/vhosts/copy")
    assert desk.ask("POST", "/api/definitions/copy", one).status == 204
    assert desk.names("/api/policies/copy") == desk.names("/api/operator-policies/copy") == ["p"]


def test_a_wrong_policy_in_definitions(desk: Desk) -> None:
    wrong = {"policies": [{"vhost": "/", "name": "p", **policy({"max-length": -1})}]}
    reply = desk.ask("POST", "/api/definitions", wrong)
    assert reply.reason == "Validation failed\n\n-1 is not a valid maximum length\n (//p)"
