"""Who may ask what: every route with every role, logins, other people's pages."""

from __future__ import annotations

import re

import pytest

from embermq.http.server.auth import ALLOWED_TAGS, REASONS
from embermq.http.server.routes import TABLE
from tests.support.http_api import ROLES, Desk

WHAT_STANDS_THERE = {"vhost": "%2F", "kind": "q"}
ROUTES = [(method, path, level) for method, path, _, level in TABLE]


def filled(path: str) -> str:
    """A path with names in it; most of them name nothing."""
    return re.sub(r"{(\w+)}", lambda match: WHAT_STANDS_THERE.get(match[1], "no-such-thing"), path)


@pytest.mark.parametrize(("method", "path", "level"), ROUTES)
def test_a_route_opens_for_its_roles_and_for_no_others(
    desk: Desk, method: str, path: str, level: str
) -> None:
    for role in ROLES:
        reply = desk.ask(method, filled(path), {}, login=f"{role}:secret")
        assert reply.status != 500
        kept_out = reply.status == 401 and reply.reason in REASONS.values()
        assert kept_out == (level != "" and role not in ALLOWED_TAGS[level]), role


@pytest.mark.parametrize(("method", "path", "level"), ROUTES)
def test_a_route_wants_a_login(desk: Desk, method: str, path: str, level: str) -> None:
    for login in ("", "guest:wrong", "nobody:guest", "guest:"):
        reply = desk.ask(method, filled(path), {}, login=login)
        if level:
            assert (reply.status, reply.reason) == (401, "Login failed")
            assert reply.headers["www-authenticate"].startswith("Basic ")
        else:
            # Some have it in the body, some ask for a file that is not there.
            expected = {"/api/login": 401, "/api/session": 401 if method == "POST" else 204}
            assert reply.status == expected.get(path, 404 if "{file}" in path else 200)


def test_the_methods_of_a_route_are_told(desk: Desk) -> None:
    refused = desk.ask("PATCH", "/api/queues/%2F/q")
    assert refused.status == 405
    assert refused.headers["allow"] == "DELETE, GET, HEAD, OPTIONS, PUT"
    assert desk.ask("OPTIONS", "/api/overview", login="").headers["allow"] == "GET, HEAD, OPTIONS"


def test_guest_comes_from_this_machine_only(desk: Desk) -> None:
    assert desk.ask("GET", "/api/whoami", peer="127.0.0.1").status == 200
    assert desk.ask("GET", "/api/whoami", peer="192.0.2.1").status == 401
    assert desk.ask("GET", "/api/whoami", peer="192.0.2.1", login="management:secret").status == 200


@pytest.mark.parametrize("value", ["Basic", "Basic !!!", "Bearer x", "Basic Z3Vlc3Q=", "Basic //79"])
def test_a_login_that_makes_no_sense(desk: Desk, value: str) -> None:
    assert desk.ask("GET", "/api/whoami", login="", headers={"authorization": value}).status == 401


def test_the_page_of_another_site_changes_nothing(desk: Desk) -> None:
    for headers in (
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
    ):
        assert desk.ask("PUT", "/api/queues/%2F/q", {}, headers=headers).status == 403
    assert desk.names("/api/queues") == []
    own = {"origin": "http://localhost:15672", "sec-fetch-site": "same-origin"}
    assert desk.ask("PUT", "/api/queues/%2F/q", {}, headers=own).status == 201


def test_permissions_of_amqp_hold_here_too(desk: Desk) -> None:
    rights = {"configure": "^mine", "write": "", "read": "^mine"}
    desk.put("/api/permissions/%2F/management", rights, status=204)
    for name in ("mine", "yours"):
        desk.put(f"/api/queues/%2F/{name}")
    login = "management:secret"
    taken = {"ackmode": "ack_requeue_false", "count": 1, "encoding": "auto"}
    message = {"routing_key": "mine", "payload": "", "payload_encoding": "string", "properties": {}}
    for name, allowed in (("mine", True), ("yours", False)):
        status = [
            desk.ask("POST", f"/api/queues/%2F/{name}/get", taken, login=login).status,
            desk.ask("DELETE", f"/api/queues/%2F/{name}/contents", login=login).status,
            desk.ask("DELETE", f"/api/queues/%2F/{name}", login=login).status,
        ]
        assert status == ([200, 204, 204] if allowed else [401, 401, 401])
    refused = desk.ask("POST", "/api/exchanges/%2F/amq.default/publish", message, login=login)
    assert refused.status == 400 and "403 ACCESS_REFUSED" in refused.reason


def test_virtual_hosts_without_permissions_are_not_seen(desk: Desk) -> None:
    desk.put("/api/vhosts/secret")
    desk.put("/api/queues/secret/q")
    assert desk.names("/api/vhosts", login="management:secret") == ["/"]
    assert desk.names("/api/queues", login="management:secret") == []
    assert desk.ask("GET", "/api/queues/secret", login="management:secret").status == 401
    assert desk.names("/api/queues/secret", login="monitoring:secret") == ["q"]
