"""The start page: names as text, pages of a long list, what its user may see."""

from __future__ import annotations

import re

from tests.support.http_api import Desk, in_path


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
