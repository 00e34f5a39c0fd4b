"""Users, permissions, virtual hosts and definitions by HTTP."""

from __future__ import annotations

import base64
import hashlib
import json

import pytest

from tests.support.http_api import SECRET, Desk


def test_a_password_is_changed_and_the_old_one_is_useless(desk: Desk) -> None:
    desk.put("/api/users/ada", {"password": "one", "tags": "management"})
    assert desk.get("/api/whoami", login="ada:one") == {"name": "ada", "tags": ["management"]}
    user = desk.broker.users["ada"]
    desk.put("/api/users/ada", {"password": "two", "tags": ["monitoring"]}, status=204)
    assert desk.ask("GET", "/api/whoami", login="ada:one").status == 401
    assert desk.get("/api/whoami", login="ada:two")["tags"] == ["monitoring"]
    assert desk.broker.users["ada"] is user, "connections that are open must see the change"


@pytest.mark.parametrize("algorithm", ["sha256", "sha512"])
def test_a_user_comes_with_the_hash_that_rabbitmq_made(desk: Desk, algorithm: str) -> None:
    salt = b"\x90\x8d\xc6\x0a"
    hashed = base64.b64encode(salt + hashlib.new(algorithm, salt + b"test12").digest()).decode()
    name = f"rabbit_password_hashing_{algorithm}"
    body = {"password_hash": hashed, "hashing_algorithm": name, "tags": "management"}
    desk.put("/api/users/ada", body)
    assert desk.ask("GET", "/api/whoami", login="ada:wrong").status == 401
    shown = desk.get("/api/users/ada")
    assert (shown["password_hash"], shown["hashing_algorithm"]) == (hashed, name)
    assert desk.get("/api/whoami", login="ada:test12")["name"] == "ada"
    assert desk.get("/api/users/ada")["hashing_algorithm"] == "embermq_scrypt", "a better one from now on"
    assert desk.get("/api/whoami", login="ada:test12")["name"] == "ada"


def test_a_user_without_a_password_cannot_log_in(desk: Desk) -> None:
    for body in ({"password_hash": "", "tags": "administrator"}, {"tags": "administrator"}):
        desk.put("/api/users/ghost", body, status=204 if "ghost" in desk.broker.users else 201)
        assert desk.ask("GET", "/api/whoami", login="ghost:").status == 401


@pytest.mark.parametrize(
    "body",
    [
        {"password": "x"},
        {"password": "x", "tags": 1},
        {"password": 1, "tags": ""},
        {"password": "\ud800", "tags": ""},
        {"password_hash": "!", "tags": ""},
        {"password_hash": "AAAA", "hashing_algorithm": "rot13", "tags": ""},
    ],
)
def test_users_that_cannot_be(desk: Desk, body: dict[str, object]) -> None:
    assert desk.ask("PUT", "/api/users/ada", body).status == 400
    assert "ada" not in desk.broker.users


def test_a_deleted_user_is_gone_with_the_permissions(desk: Desk) -> None:
    desk.put("/api/users/ada", {"password": "x", "tags": ""})
    desk.put("/api/permissions/%2F/ada", {"configure": "^$", "write": "", "read": ".*"})
    assert desk.get("/api/permissions/%2F/ada")["configure"] == "^$"
    assert desk.names("/api/users/without-permissions") == []
    assert desk.ask("DELETE", "/api/users/ada").status == 204
    assert "ada" not in [permission["user"] for permission in desk.get("/api/permissions")]
    assert desk.ask("DELETE", "/api/users/ada").status == 404
    assert desk.ask("POST", "/api/users/bulk-delete", {"users": ["management", "none"]}).status == 204
    assert "none" not in desk.names("/api/users")


@pytest.mark.parametrize(
    "body", [{}, {"configure": "("}, {"configure": "", "write": "", "read": "["}, {"configure": 1}]
)
def test_permissions_that_cannot_be(desk: Desk, body: dict[str, object]) -> None:
    reply = desk.ask("PUT", "/api/permissions/%2F/none", {"write": "", **body})
    assert reply.status == 400


def test_a_virtual_host_goes_with_everything_in_it(desk: Desk) -> None:
    desk.put("/api/vhosts/v", {"description": "for tests", "tags": "a,b"})
    assert desk.get("/api/vhosts/v")["metadata"] == {"description": "for tests", "tags": ["a", "b"]}
    desk.put("/api/queues/v/q", {"durable": True})
    desk.put("/api/exchanges/v/e", {"type": "fanout"})
    desk.ask("POST", "/api/bindings/v/e/e/q/q", {})
    assert desk.ask("DELETE", "/api/vhosts/v").status == 204
    assert desk.names("/api/vhosts") == ["/"]
    assert all(permission["vhost"] == "/" for permission in desk.get("/api/permissions"))
    desk.put("/api/vhosts/v")
    assert desk.names("/api/queues/v") == []


def test_definitions_go_out_and_in_again(desk: Desk) -> None:
    desk.put("/api/vhosts/v", {"description": "d", "tags": ["t"]})
    desk.put("/api/queues/v/q", {"durable": True, "arguments": {"x-max-length": 5, "list": [1, {"a": "b"}]}})
    desk.put("/api/exchanges/v/e", {"type": "headers", "durable": True, "internal": True})
    desk.ask("POST", "/api/bindings/v/e/e/q/q", {"routing_key": "k", "arguments": {"x-match": "any"}})
    desk.ask("POST", "/api/bindings/v/e/amq.topic/e/e", {"routing_key": "#"})
    exported = desk.get("/api/definitions")
    assert (len(exported["queues"]), len(exported["exchanges"]), len(exported["bindings"])) == (1, 1, 2)
    with Desk() as other:
        assert other.ask("POST", "/api/definitions", exported).status == 204
        assert other.get("/api/definitions") == exported
        other.put("/api/vhosts/w")
        assert other.ask("POST", "/api/definitions/w", desk.get("/api/definitions/v")).status == 204
        assert other.get("/api/definitions/w") == desk.get("/api/definitions/v")


RABBITMQ_HASH = "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"  # of "test12", as RabbitMQ's guide has it


def test_passwords_go_where_they_are_understood(desk: Desk) -> None:
    desk.put("/api/users/theirs", {"password_hash": RABBITMQ_HASH, "tags": ""})
    desk.put("/api/users/ours", {"password": "secret", "tags": ""})
    desk.put("/api/users/nobody", {"password_hash": "", "tags": ""})
    for user in ("theirs", "ours"):
        desk.put(f"/api/permissions/%2F/{user}", {"configure": "", "write": "", "read": ".*"})
        topics = {"exchange": "amq.topic", "write": "", "read": ""}
        desk.put(f"/api/topic-permissions/%2F/{user}", topics)

    whole = desk.get("/api/definitions")
    ours = whole["embermq"]
    theirs = {key: value for key, value in whole.items() if key != "embermq"}
    assert "embermq_scrypt" not in json.dumps(theirs)
    assert {user["name"] for user in theirs["users"]} == {"nobody", "theirs"}
    assert {"guest", "ours"} <= {user["name"] for user in ours["users"]}
    for kind in ("permissions", "topic_permissions"):
        assert {thing["user"] for thing in theirs[kind]} == {"theirs"}, "nobody else is there to have them"
        assert "ours" in {thing["user"] for thing in ours[kind]}
    with Desk() as other:
        assert other.ask("POST", "/api/definitions", theirs).status == 204
        assert other.ask("POST", "/api/definitions", whole).status == 204
        assert other.get("/api/definitions") == whole
        assert other.ask("GET", "/api/whoami", login="ours:secret").reason == "Not management user"

    fit = desk.get("/api/definitions?for=rabbitmq")
    assert "ours" in fit["users_without_password"] and "embermq_scrypt" not in json.dumps(fit)
    assert {thing["user"] for thing in fit["topic_permissions"]} == {"ours", "theirs"}
    assert "embermq" not in fit


@pytest.mark.parametrize(
    "document",
    [
        {"queues": [{"name": "q"}]},
        {"queues": [{"name": "q", "vhost": "nowhere"}]},
        {"queues": {"name": "q"}},
        {"queues": ["q"]},
        {"queues": [{"name": "", "vhost": "/"}]},
        {"users": [{"name": ""}]},
        {"vhosts": [{"name": 1}]},
        {"exchanges": [{"name": "e", "vhost": "/", "type": "bogus"}]},
        {"bindings": [{"source": "no", "vhost": "/", "destination": "no", "destination_type": "queue"}]},
        {"permissions": [{"user": "nobody", "vhost": "/", "configure": "", "write": "", "read": ""}]},
    ],
)
def test_definitions_that_cannot_be(desk: Desk, document: object) -> None:
    reply = desk.ask("POST", "/api/definitions", document)
    assert reply.status == 400, reply.body


def test_many_definitions(desk: Desk) -> None:
    queues = [{"name": f"q{number:04}", "vhost": "/", "durable": True} for number in range(3000)]
    assert desk.ask("POST", "/api/definitions", raw=json.dumps({"queues": queues}).encode()).status == 204
    assert desk.get("/api/queues?page=6&page_size=500")["items"][-1]["name"] == "q2999"


def test_a_hashed_password_is_one_that_a_user_can_have(desk: Desk) -> None:
    reply = desk.ask("POST", "/api/auth/hash_password", {"password": "swordfish"})
    desk.put("/api/users/somebody", {"password_hash": reply.json["ok"], "tags": "management"})
    assert desk.get("/api/whoami", login="somebody:swordfish")["name"] == "somebody"
    assert desk.ask("POST", "/api/auth/hash_password", {"password": 7}).status == 400
    assert desk.ask("POST", "/api/auth/hash_password", {}).status == 400


def test_the_version(desk: Desk) -> None:
    assert desk.get("/api/version") == desk.get("/api/overview")["product_version"]


def test_a_hash_that_comes_back_is_the_password_that_it_was(desk: Desk) -> None:
    before = desk.broker.users["none"]
    view = desk.get("/api/users/none")
    kept = {name: view[name] for name in ("password_hash", "hashing_algorithm")}
    desk.put("/api/users/none", {**kept, "tags": "monitoring"}, 204)
    after = desk.broker.users["none"]
    assert after.secret == SECRET and after.secret.scram is not None and after.tags == {"monitoring"}
    assert after is before and after.verified is not None, "nobody has to log in anew"
    desk.put("/api/users/none", {"password_hash": "", "tags": ""}, 204)
    assert after.secret.scram is None and after.verified is None
