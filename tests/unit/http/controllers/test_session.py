"""Signing in and out of the console, and what its cookie is good for."""

from __future__ import annotations

from embermq.broker.security.user import Permission
from embermq.http.server.session import token_in
from tests.support.http_api import Desk, Reply

CONSOLE = {"x-embermq-console": "1"}


def sign_in(desk: Desk, name: str = "management", password: str = "secret", **more: str) -> Reply:
    return desk.ask("POST", "/api/session", {"username": name, "password": password}, login="", **more)


def cookie_of(reply: Reply) -> dict[str, str]:
    return {"cookie": reply.headers["set-cookie"].partition(";")[0]}


def test_the_user_is_told_tags_and_permissions(desk: Desk) -> None:
    desk.broker.users.grant(desk.broker.users["management"], "/", Permission("^mine", "", ".*"))
    reply = sign_in(desk)
    session = {
        "name": "management",
        "tags": ["management"],
        "permissions": [{"vhost": "/", "configure": "^mine", "write": "", "read": ".*"}],
    }
    assert (reply.status, reply.json) == (200, session)
    assert "HttpOnly; SameSite=Strict" in reply.headers["set-cookie"]
    assert desk.get("/api/session", login="", headers=cookie_of(reply)) == session
    assert desk.get("/api/session", login="management:secret") == session


def test_a_wrong_password_a_user_without_a_tag_and_no_form(desk: Desk) -> None:
    assert (sign_in(desk, password="wrong").status, sign_in(desk, password="wrong").reason) == (
        401,
        "Login failed",
    )
    assert sign_in(desk, name="none").reason == "Not management user"
    assert desk.ask("POST", "/api/session", raw=b"nonsense", login="").status == 400
    assert desk.ask("POST", "/api/session", {"username": 1}, login="").status == 400
    assert desk.api.context.console_sessions.by_token == {}


def test_failed_attempts_are_throttled_like_all_others(desk: Desk) -> None:
    throttle = desk.broker.authenticator.login_throttle
    before = len(throttle.buckets)
    sign_in(desk, password="wrong", peer="192.0.2.7")
    assert len(throttle.buckets) == before + 1


def test_another_site_signs_nobody_in(desk: Desk) -> None:
    body = {"username": "management", "password": "secret"}
    headers = {"origin": "https://evil.example"}
    assert desk.ask("POST", "/api/session", body, login="", headers=headers).status == 403


def test_a_cookie_alone_reads_and_changes_nothing(desk: Desk) -> None:
    cookie = cookie_of(sign_in(desk))
    assert desk.ask("GET", "/api/queues", login="", headers=cookie).status == 200
    refused = desk.ask("PUT", "/api/queues/%2F/q", {}, login="", headers=cookie)
    assert refused.status == 401
    assert desk.ask("PUT", "/api/queues/%2F/q", {}, login="", headers=cookie | CONSOLE).status == 201


def test_the_console_is_not_challenged_and_knows_its_session_only(desk: Desk) -> None:
    refused = desk.ask("GET", "/api/queues", headers=CONSOLE)  # with a right password, too
    assert (refused.status, refused.reason) == (401, "Not signed in")
    assert "www-authenticate" not in refused.headers
    cookie = cookie_of(sign_in(desk))
    assert desk.get("/api/whoami", headers=cookie | CONSOLE)["name"] == "management"
    # Without the header, a password counts before a cookie.
    assert desk.get("/api/whoami", headers=cookie)["name"] == "guest"


def test_tags_open_routes_for_sessions_as_well(desk: Desk) -> None:
    cookie = cookie_of(sign_in(desk))
    assert (
        desk.ask("GET", "/api/users", login="", headers=cookie | CONSOLE).reason == "Not administrator user"
    )


def test_signing_out(desk: Desk) -> None:
    reply = sign_in(desk)
    cookie = cookie_of(reply)
    gone = desk.ask("DELETE", "/api/session", login="", headers=cookie | CONSOLE)
    assert gone.status == 204
    assert token_in(gone.headers["set-cookie"]) == "" and "Max-Age=0" in gone.headers["set-cookie"]
    assert desk.ask("GET", "/api/session", login="", headers=cookie).status == 401


def test_a_new_password_ends_the_session(desk: Desk) -> None:
    cookie = cookie_of(sign_in(desk))
    desk.put("/api/users/management", {"password": "other", "tags": "management"}, status=204)
    assert desk.ask("GET", "/api/session", login="", headers=cookie).status == 401
