"""The page of one queue as people see it, in a real browser: found from the start page, read, left again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.parse import quote

import pika
import pytest

from embermq.testing import EmbeddedBroker
from tests.browser.chromium import Chromium
from tests.browser.seen import FAINT, FOCUSED, STICKS_OUT, check_look, put, table

pytestmark = pytest.mark.once("what a browser shows does not depend on compilation")

NASTY = "<img src=x onerror=alert(1)>&\"' / ☕"
LONG = "a.name.that.a.program.made." + "x" * 200
ORDER = {
    "id": 17,
    "items": [{"tea": 2}, {"scone": 1}],
    "note": "</pre><script>alert(1)</script>",
    "paid": None,
}
FOCUS_IS_SEEN = "getComputedStyle(document.activeElement).outlineStyle !== 'none'"


def address(name: str) -> str:
    return f"/queues/%2F/{quote(name, safe='')}"


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        put(running, f"/api/queues/%2F/{quote(LONG, safe='')}", {"durable": True})
        put(running, "/api/queues/%2F/events", {"durable": True, "arguments": {"x-queue-type": "stream"}})
        arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": LONG, "x-max-length": 99999}
        nasty = quote(NASTY, safe="")
        put(running, f"/api/queues/%2F/{nasty}", {"durable": True, "arguments": arguments})
        policy = {"pattern": "img", "definition": {"max-length": 500}, "apply-to": "queues"}
        put(running, "/api/policies/%2F/short", policy)
        for number in range(40):
            key = f"key.{number}." + "k" * 100
            put(running, f"/api/bindings/%2F/e/amq.topic/q/{nasty}", {"routing_key": key}, "POST")
        with pika.BlockingConnection(pika.URLParameters(running.url)) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            bodies = [json.dumps(ORDER).encode(), bytes(range(256)) * 4, b"text " * 1000, b"x" * 3000, b""]
            for body in [*bodies, *(b"%d" % number for number in range(20))]:
                properties = pika.BasicProperties(headers={"a-header": "h" * 300}, message_id="m" * 100)
                channel.basic_publish("amq.topic", "key.7." + "k" * 100, body, properties)
                channel.basic_publish("", "events", body, properties)
            readers = connection.channel()
            readers.basic_qos(prefetch_count=2)
            readers.basic_consume(NASTY, lambda *_: None, consumer_tag="worker <1>")
            start = {"x-stream-offset": 5, "x-stream-consumer": "archive"}
            readers.basic_consume("events", lambda *_: None, arguments=start)
            yield running


@pytest.fixture(scope="module")
def page(browser: Chromium) -> Chromium:
    browser.login("guest", "guest")
    return browser


def cards(page: Chromium) -> dict[str, str]:
    read = "[...document.querySelectorAll('dl > div')].map(card => [...card.children].map(c => c.innerText))"
    return dict(page.run(read))


@pytest.mark.parametrize(("width", "dark"), [(1200, False), (1200, True), (400, False), (400, True)])
@pytest.mark.parametrize("name", [NASTY, LONG, "events"])
def test_everything_can_be_read(
    page: Chromium, broker: EmbeddedBroker, name: str, width: int, dark: bool
) -> None:
    page.look(width=width, dark=dark)
    page.go(broker.http_url + address(name))
    check_look(page)
    assert page.run("document.querySelector('h1').innerText") == name
    assert page.run("document.title").startswith(f"{name} · EmberMQ on ")
    assert page.run("document.images.length") == 0


def test_what_it_shows(page: Chromium, broker: EmbeddedBroker) -> None:
    page.look()
    page.go(broker.http_url + address(NASTY))
    shown = cards(page)
    assert shown["Ready"].startswith("23 ") and shown["Consumers"] == "1"
    assert shown["Unacknowledged"] == "2 1 KiB", "the order, and 1,024 bytes"
    [consumer] = table(page, "consumers")
    assert consumer[0] == "worker <1>" and consumer[2:] == ["2", "2", "by the client", "active"]
    assert "127.0.0.1" in consumer[1] and consumer[1].endswith("user guest")
    facts = dict(table(page, "facts"))
    assert facts["Kind"] == "classic, durable" and facts["Policy"].startswith("short ")
    assert facts["x-max-length"] == "500 by policy; declared: 99999" and facts["Dead letters"] == f"to {LONG}"
    bindings = table(page, "bindings")
    assert len(bindings) == 25 and bindings[0][0] == "amq.topic topic"
    text = page.run("document.body.innerText")
    assert "And 15 more, by the HTTP API." in text and "And 13 more, by the HTTP API." in text
    bodies = page.run("[...document.querySelectorAll('pre')].map(pre => pre.innerText)")
    assert bodies[0] == ("text " * 1000)[:1000] and bodies[2:] == [str(number) for number in range(7)]
    regions = page.names("region")
    assert {"What it is", "Consumers 1", "First messages 10 of 23", "Bindings 40"} <= set(regions)
    assert page.names("heading")[0] == NASTY and page.names("navigation") == ["Back"]
    assert page.complaints() == []


def test_json_and_bytes(page: Chromium, broker: EmbeddedBroker) -> None:
    page.look()
    page.go(broker.http_url + address("events"))
    bodies = page.run("[...document.querySelectorAll('pre')].map(pre => pre.innerText)")
    assert json.loads(bodies[0]) == ORDER and bodies[0].splitlines()[1] == '  "id": 17,'
    row = bodies[1].splitlines()[2]
    assert row.startswith("0020  20 21 22 23 ") and row.endswith(" 2e 2f   !\"#$%&'()*+,-./")
    shown = cards(page)
    assert (shown["First offset"], shown["Last offset"], shown["Readers"]) == ("0", "24", "1")
    [reader] = table(page, "consumers")
    assert reader[2:] == ["archive", "7", "18", "active"]
    assert page.run("document.querySelector('.messages h3').innerText") == "Offset 0 events"


def test_there_and_back_with_the_keyboard(page: Chromium, broker: EmbeddedBroker) -> None:
    page.look(width=400)
    page.go(broker.http_url + "/")
    until_focused(page, NASTY)
    follow(page)
    assert page.run("location.pathname") == address(NASTY)
    until_focused(page, LONG)
    follow(page)
    assert page.run("document.querySelector('h1').innerText") == LONG, "where its dead letters go"
    until_focused(page, "All queues")
    follow(page)
    assert page.run("location.pathname") == "/"


def until_focused(page: Chromium, text: str) -> None:
    for _ in range(30):
        page.press("Tab")
        assert page.run(FOCUS_IS_SEEN)
        if page.run(FOCUSED) == text:
            return
    raise AssertionError(f"{text} is not to be reached")


def follow(page: Chromium) -> None:
    page.events.clear()
    page.press("Enter", "\r")
    page.until_loaded()


def test_a_queue_that_goes_while_somebody_looks(page: Chromium, broker: EmbeddedBroker) -> None:
    put(broker, "/api/queues/%2F/short-lived", {})
    page.look(width=400, dark=True)
    page.go(broker.http_url + address("short-lived") + "?every=2")
    page.run("document.querySelector('footer a').focus()")
    put(broker, "/api/bindings/%2F/e/amq.direct/q/short-lived", {"routing_key": "fresh"}, "POST")
    page.until("document.body.innerText.includes('fresh')")
    assert page.run(FOCUSED) == "All queues" and page.complaints() == []
    page.events.clear()
    put(broker, "/api/queues/%2F/short-lived", {}, "DELETE")
    page.until_loaded()
    told = page.run("document.body.innerText")
    assert page.status() == 404 and "There is no queue short-lived in the virtual host /" in told
    assert page.run(STICKS_OUT) is False and page.run(FAINT) == []
    page.events.clear()
    page.run("document.querySelector('a').click()")
    page.until_loaded()
    assert page.run("location.pathname") == "/"


def test_who_may_not_see_it_is_told(browser: Chromium, broker: EmbeddedBroker) -> None:
    put(broker, "/api/users/looker", {"password": "looker", "tags": "management"})
    browser.login("looker", "looker")
    browser.look(width=400)
    browser.go(broker.http_url + address("events"))
    assert browser.status() == 401
    assert "embermq permission grant looker --vhost /" in browser.run("document.body.innerText")
    assert browser.run(STICKS_OUT) is False and browser.run(FAINT) == []
