"""The page of one queue: for those who may see it, with everything escaped and nothing without an end."""

from __future__ import annotations

import re
from html import unescape

import pytest

from embermq.http.console.body import BODY_BYTES, as_json, body_html
from tests.support.domain import Taker, message
from tests.support.http_api import Desk

DASH = "\N{EN DASH}"
BROWSER = {"accept": "text/html,application/xhtml+xml"}
NAMES = [
    "plain",
    "with/slash",
    "/",
    "Grüße ☕ שלום",
    "<script>alert('x')</script>&\"",
    "a b",
    " ",
    "%2F",
    "?q=1#x",
    "a\\b",
    ".",
    "..",
    "x" * 255,
]


def shown(desk: Desk, path: str, **more: str) -> str:
    reply = desk.ask("GET", path, **more)  # type: ignore[arg-type]
    assert (reply.status, reply.content_type) == (200, "text/html; charset=utf-8"), reply.body
    return reply.body.decode()


def section(page: str, name: str) -> str:
    """The text of a section, without its markup."""
    found = re.search(rf'<section aria-labelledby="{name}">(.*?)</section>', page, re.DOTALL)
    assert found is not None
    return " ".join(unescape(re.sub("<[^>]*>", " ", found[1])).split())


@pytest.mark.parametrize("vhost", ["/", "side/way", ".."])
@pytest.mark.parametrize("name", NAMES)
def test_every_name_leads_to_its_page(desk: Desk, name: str, vhost: str) -> None:
    if vhost != "/":
        desk.broker.add_vhost(vhost)
    desk.broker.vhosts[vhost].declare_queue(
        name, durable=False, exclusive=False, auto_delete=False, arguments={}, owner=None
    )
    start = desk.ask("GET", "/").body.decode()
    address = unescape(re.findall(r'<th scope="row" class="name"><a href="([^"]*)">', start)[0])
    assert not set(address.partition("?")[0].split("/")) & {".", ".."}, "browsers would go elsewhere"
    page = shown(desk, address)
    written = name.encode("utf-8", "replace").decode()
    assert written in unescape(re.findall("<h1>.*</h1>", page)[0])
    assert "<script" not in page
    assert not re.search(r'(src|href)="(?!/[^/]|/"|data:)', page), "nothing comes from outside"
    for every in re.findall(r'<a href="([^"]*every=[^"]*)">', page):
        assert 'http-equiv="refresh"' in shown(desk, unescape(every))


def test_a_name_that_is_no_text_leads_to_its_page_as_well(desk: Desk) -> None:
    test_every_name_leads_to_its_page(desk, "not UTF-8: \udcff\udcfe", "/")


def test_what_is_not_there(desk: Desk) -> None:
    for path in ("/queues/%2F/%3Cb%3E", "/queues/nowhere/%3Cb%3E", "/queues?name=%3Cb%3E"):
        reply = desk.ask("GET", path, headers=BROWSER)
        page = reply.body.decode()
        assert (reply.status, reply.content_type) == (404, "text/html; charset=utf-8")
        assert "There is no queue <code>&lt;b&gt;</code>" in page and 'href="/"' in page
        assert desk.ask("GET", path).json["error"] == "Object Not Found", "programs read JSON"
    assert desk.ask("GET", "/queues", headers=BROWSER).status == 404
    assert desk.ask("GET", "/queues/%2F", headers=BROWSER).status == 404


def test_for_those_who_may_see_it(desk: Desk) -> None:
    desk.ask("PUT", "/api/vhosts/side")
    desk.put("/api/queues/side/covert")
    message = {"routing_key": "covert", "payload": "secret", "payload_encoding": "string", "properties": {}}
    desk.ask("POST", "/api/exchanges/side/amq.default/publish", message)
    path = "/queues/side/covert"
    assert "secret" in shown(desk, path)
    for login, told in (
        ("", b"needs the name and the password"),
        ("none:secret", b"embermq user tags none management"),
        ("management:secret", b"embermq permission grant management --vhost side"),
    ):
        reply = desk.ask("GET", path, login=login, headers=BROWSER)
        assert reply.status == 401 and told in reply.body and b"covert" not in reply.body, login
        assert "www-authenticate" in reply.headers
    page = shown(desk, path, login="monitoring:secret")
    assert "secret" not in section(page, "messages") and "may not read" in section(page, "messages")


def test_looking_changes_nothing(desk: Desk) -> None:
    desk.put("/api/queues/%2F/q")
    for body in ("first", "second"):
        desk.publish("q", body, headers={"colour": "<red>"}, message_id="m-1", delivery_mode=2)
    before = desk.get("/api/queues/%2F/q")
    page = shown(desk, "/queues/%2F/q")
    assert desk.get("/api/queues/%2F/q") == before
    told = section(page, "messages")
    assert told.startswith("First messages 2 of 2 1. q 5 bytes of text by the default exchange")
    assert "message id m-1" in told and "header colour <red>" in told and "delivery mode persistent" in told
    assert told.index("first") < told.index("second") and "redelivered" not in told
    assert "2 <small>11 bytes</small>" in page and "0 <small>0 bytes</small>" in page


def test_what_it_is_by_declaration_and_policy(desk: Desk) -> None:
    desk.put("/api/exchanges/%2F/letters", {"type": "fanout"})
    desk.put("/api/queues/%2F/dead%2Fone")
    arguments = {"x-max-length": 1000, "x-message-ttl": 5000}
    desk.put("/api/queues/%2F/q", {"auto_delete": True, "arguments": arguments})
    definition = {"max-length": 10, "dead-letter-exchange": "letters"}
    desk.put("/api/policies/%2F/short", {"pattern": "^q$", "definition": definition, "apply-to": "queues"})
    told = section(shown(desk, "/queues/%2F/q"), "facts")
    assert "Kind classic, transient, auto-delete: it goes with its last consumer" in told
    assert "Policy short for names that fit ^q$" in told
    assert "x-max-length 10 by policy; declared: 1000" in told and "x-message-ttl 5000" in told
    assert "to the exchange letters , with their routing keys No queue is bound to it." in told
    desk.ask("POST", "/api/bindings/%2F/e/letters/q/dead%2Fone", {})
    page = shown(desk, "/queues/%2F/q")
    assert '<a href="/queues/%2F/dead%2Fone"><code>dead/one</code></a>' in page
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead/one"}
    desk.put("/api/queues/%2F/direct", {"arguments": arguments})
    assert 'to <a href="/queues/%2F/dead%2Fone">' in shown(desk, "/queues/%2F/direct")
    arguments = {"x-dead-letter-exchange": "nowhere"}
    desk.put("/api/queues/%2F/lost", {"arguments": arguments})
    assert "There is no such exchange" in section(shown(desk, "/queues/%2F/lost"), "facts")


def test_lists_have_an_end(desk: Desk) -> None:
    desk.put("/api/queues/%2F/q")
    vhost = desk.broker.vhosts["/"]
    queue = vhost.queue("q")
    for number in range(1000):
        queue.append(message(b"%d" % number))
        vhost.bind(vhost.exchange("amq.topic"), queue, f"key.{number}", {"x": "<b>" * 200})
    for _ in range(1000):
        queue.add_consumer(Taker(queue, credit=0))
    page = shown(desk, "/queues/%2F/q")
    assert len(page) < 60_000 and "<b>" not in page
    assert section(page, "consumers").startswith("Consumers 1,000")
    assert section(page, "consumers").endswith("And 975 more, by the HTTP API .")
    assert "And 975 more" in section(page, "bindings") and "key.24" in page and "key.25" not in page
    assert section(page, "messages").endswith("And 990 more, by the HTTP API .")


def test_which_consumer_is_active(desk: Desk) -> None:
    desk.put("/api/queues/%2F/q", {"arguments": {"x-single-active-consumer": True}})
    queue = desk.broker.vhosts["/"].queue("q")
    for _ in range(2):
        queue.add_consumer(Taker(queue))
    told = section(shown(desk, "/queues/%2F/q"), "consumers")
    assert told.index("by the client active") < told.index("by the client stands by")
    desk.put("/api/queues/%2F/shared")
    queue = desk.broker.vhosts["/"].queue("shared")
    for no_ack in (False, True):
        queue.add_consumer(Taker(queue, no_ack=no_ack))
    told = section(shown(desk, "/queues/%2F/shared"), "consumers")
    assert told.endswith("automatic active") and "by the client active" in told


def test_properties_without_measure(desk: Desk) -> None:
    desk.put("/api/queues/%2F/q")
    desk.publish("q", "x", headers={f"h{number}": "v" * 30 for number in range(100)})
    desk.publish("q", "x", headers={f"h{number}": "v" * 1000 for number in range(100)})
    desk.publish("q", "x", timestamp=2**62, headers={"deep": {"a": [{"b": "c" * 500}]}})
    told = section(shown(desk, "/queues/%2F/q"), "messages")
    assert "header h19" in told and "header h20" not in told and "and 80 more" in told
    assert "of properties, too many to show" in told
    assert str(2**62) in told and "c" * 150 in told and "c" * 201 not in told


def test_an_exclusive_queue_shows_nothing_of_what_it_holds(desk: Desk) -> None:
    vhost = desk.broker.vhosts["/"]
    queue = vhost.declare_queue(
        "mine", durable=False, exclusive=True, auto_delete=False, arguments={}, owner=object()
    )
    queue.append(message(b"secret"))
    page = shown(desk, "/queues/%2F/mine")
    assert "secret" not in page and "only its connection may look into it" in page
    assert "exclusive" in section(page, "facts")


@pytest.mark.parametrize(
    ("body", "told", "look"),
    [
        (b"", "empty body", ""),
        (b"hello\n\tworld", "12 bytes of text", "hello\n\tworld"),
        ("Grüße ☕".encode(), "11 bytes of text", "Grüße ☕"),
        (b'{"a": 1e400}', "12 bytes of JSON", '{"a": 1e400}'),
        (b"\x00\x01A", "3 bytes", "0000  00 01 41" + " " * 41 + "..A"),
        (b"\xff", "1 byte", "0000  ff" + " " * 47 + "."),
        ("ab\u202ecd".encode(), "7 bytes", "0000  61 62 e2 80 ae 63 64" + " " * 29 + "ab...cd"),
        (b"[" * 2000, "2 KiB of text, here the first 1,000 bytes", "[" * 1000),
        (b"x" * 5000, "5 KiB of text, here the first 1,000 bytes", "x" * 1000),
        ("☕".encode() * 1000, "3 KiB of text, here the first 2 KiB", "☕" * (BODY_BYTES // 3)),
    ],
)
def test_bodies_are_shown_as_what_they_are(body: bytes, told: str, look: str) -> None:
    kind, html = body_html(body[:BODY_BYTES], len(body))
    assert kind == told
    assert unescape(re.sub("</?pre[^>]*>", "", html)) == look
    assert "<script" not in body_html(b"<script>", 8)[1]


def test_json_gets_lines_and_nothing_else_changes() -> None:
    text = '{"b":[1.50, {"a" : "x, {y: \\"[z\\""}, [], {}], "b": 12345678901234567890123, "n":null, "s": " "}'
    lines = as_json(text)
    assert lines is not None
    assert lines.splitlines()[:4] == ["{", '  "b": [', "    1.50,", "    {"]
    assert '"x, {y: \\"[z\\""' in lines and "12345678901234567890123" in lines and lines.count('"b"') == 2
    assert re.sub(r"\s+(?=(?:[^\"\\]|\\.|\"(?:[^\"\\]|\\.)*\")*$)", "", lines).startswith('{"b":[1.50,{"a":')
    for no_json in ("12", '"text"', "{", "{]", "[1,]", "{'a': 1}", "[" * 40 + "]" * 40, "[1," * 1500):
        assert as_json(no_json) is None
