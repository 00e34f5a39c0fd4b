"""The start page as people see it, in a real browser: nothing sticks out, all can be read and reached."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import pytest

from embermq.client import connect
from embermq.testing import EmbeddedBroker
from tests.browser.chromium import Chromium
from tests.browser.seen import FAINT, FOCUSED, STICKS_OUT, check_look, put, table
from tools.brokers import EmberBroker

pytestmark = pytest.mark.once("what a browser shows does not depend on compilation")

LONG_NAME = "a.name.that.a.program.made." + "x" * 150
NASTY_NAME = "<img src=x onerror=alert(1)>&\"'"
PIPELINES = {
    "archive": {
        "state": "running",
        "lag": 1_234_567,
        "rows": 88_000_000,
        "rows_per_second": 2.5,
        "host": "worker-7",
        "pid": 4711,
        "source": "stream 'events'",
        "sink": "parquet /data/archive",
    },
    "paid": {"state": "waiting", "lag": 3, "reason": "no broker answers"},
    "broken": {"state": "failed", "rows": 0, "reason": "body of message 7 is no JSON " * 10},
    "done": {"state": "ended", "rows": 1000},
}
HEAD_GAP = """
(() => {
  const wide = element => element.getBoundingClientRect().width;
  const table = document.querySelector("section[aria-labelledby=queues] table");
  return wide(table) - wide(table.tHead.rows[0]);
})()
"""


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        for name in (LONG_NAME, NASTY_NAME, *(f"orders.{number:03}" for number in range(120))):
            put(running, f"/api/queues/%2F/{quote(name, safe='')}", {"durable": True})
        put(running, "/api/queues/%2F/events", {"durable": True, "arguments": {"x-queue-type": "stream"}})
        for name, told in PIPELINES.items():
            put(running, f"/api/pipelines/%2F/{name}", told)
        put(running, "/api/users/plain", {"password": "plain", "tags": ""})
        put(running, "/api/users/looker", {"password": "looker", "tags": "management"})
        with connect(running.url) as connection, connection.channel() as channel:
            channel.publish_batch([b"body"] * 7, "orders.007")
        yield running


@pytest.fixture(scope="module")
def page(browser: Chromium) -> Chromium:
    """Logged in, and remembered as browsers do."""
    browser.login("guest", "guest")
    return browser


@pytest.mark.parametrize(("width", "dark"), [(1200, True), (400, False)])
def test_everything_can_be_read(page: Chromium, broker: EmbeddedBroker, width: int, dark: bool) -> None:
    page.look(width=width, dark=dark)
    with broker.blocked_publishers():
        page.go(broker.http_url + "/")
        check_look(page)
        assert page.run(HEAD_GAP) < 1
        assert len(page.names("alert")) == 1
        assert "Publishers wait" in page.run("document.body.innerText")
    page.go(broker.http_url + "/")
    assert "Publishers wait" not in page.run("document.body.innerText")
    page.go(broker.http_url + "/api/")
    check_look(page)


def test_what_it_shows(page: Chromium, broker: EmbeddedBroker) -> None:
    page.look()
    page.go(broker.http_url + "/")
    assert page.run("document.title").startswith("EmberMQ on ")
    pipelines = {row[0].split("\n")[0]: row[1:] for row in table(page, "pipelines")}
    assert list(pipelines) == ["broken", "paid", "archive", "done"], "those that need somebody come first"
    state, ends, lag, speed, rows, heard = pipelines["archive"]
    assert (state, lag, speed, rows) == ("running", "1,234,567", "2.5", "88,000,000")
    assert ends == "from stream 'events'\nto parquet /data/archive" and heard.endswith(" ago")
    assert pipelines["broken"][0] == "failed" and pipelines["broken"][2] == "\N{EN DASH}"
    queues = table(page, "queues")
    assert queues[0][0].startswith(NASTY_NAME) and len(queues) == 100
    assert len(page.names("table")) == 2 and {"Pipelines 4", "Queues 123"} <= set(page.names("region"))
    heads = page.names("columnheader")
    assert heads[:3] == ["Name", "State", "From, to"] and any(head.startswith("Ready") for head in heads)
    assert "stream" in next(row[0] for row in queues if row[0].startswith("events"))


def test_with_the_keyboard_alone(page: Chromium, broker: EmbeddedBroker) -> None:
    page.look(width=400)
    page.go(broker.http_url + "/")
    met = []
    while (met[-1:] or [""])[0] != "Ready":
        page.press("Tab")
        assert page.run("getComputedStyle(document.activeElement).outlineStyle") != "none"
        assert page.run("document.activeElement.getBoundingClientRect().height") > 1, "one sees where one is"
        met.append(str(page.run(FOCUSED)))
        assert len(met) < 20, met
    assert met[:3] == ["2 s", "10 s", "1 min"] and "Filter" in met
    page.events.clear()
    page.press("Enter", "\r")
    page.until_loaded()
    assert page.run("location.search") == "?sort=ready"
    assert table(page, "queues")[0][:2] == ["orders.007\nclassic, durable", "7"]
    assert page.run("document.querySelector('[aria-sort]').getAttribute('aria-sort')") == "descending"


def test_a_filter_and_its_pages(page: Chromium, broker: EmbeddedBroker) -> None:
    page.look()
    page.go(broker.http_url + "/?sort=ready&every=60")
    page.run("document.querySelector('input[type=search]').focus()")
    page.call("Input.insertText", text="ORDERS.")
    page.events.clear()
    page.press("Enter", "\r")
    page.until_loaded()
    assert page.complaints() == []
    assert page.run("location.search") == "?name=ORDERS.&sort=ready&every=60"
    assert page.run("document.getElementById('queues').innerText") == "Queues 120 of 123"
    page.go(page.run("document.querySelector('a[rel=next]').href"))
    assert page.run("location.search") == "?name=ORDERS.&sort=ready&page=2&every=60"
    assert len(table(page, "queues")) == 20
    page.go(broker.http_url + "/?name=%3Cb%3E")
    assert "No name has “<b>” in it." in page.run("document.body.innerText")


def test_it_comes_again_by_itself_if_one_likes(page: Chromium, broker: EmbeddedBroker) -> None:
    page.look()
    page.go(broker.http_url + "/")
    assert page.run("document.scripts.length") == 0
    page.go(broker.http_url + "/?name=late&every=2")
    assert "No name has" in page.run("document.body.innerText")
    page.run("document.querySelector('footer a').focus()")
    put(broker, "/api/queues/%2F/late", {"durable": True})
    page.until("document.getElementById('queues').innerText.startsWith('Queues 1 of')")
    assert page.run(FOCUSED) == "console", "who is there with the keyboard stays there"
    page.run("document.querySelector('input').focus()")
    page.call("Input.insertText", text="typed")
    asked = "performance.getEntriesByType('resource').length"
    page.until(f"{asked} > {page.run(asked)}")
    assert "typed" in page.run("document.querySelector('input').value"), "what is typed stays"
    assert page.complaints() == []


def test_it_comes_again_without_scripts(page: Chromium, broker: EmbeddedBroker) -> None:
    page.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        page.go(broker.http_url + "/?every=2")
        page.events.clear()
        page.until_loaded()
    finally:
        page.call("Emulation.setScriptExecutionDisabled", value=False)


def test_it_stays_while_the_broker_is_away_and_comes_back_with_it(page: Chromium) -> None:
    gone, text = "document.getElementById('gone') !== null", "document.body.innerText"
    with EmberBroker() as broker:
        page.look(width=400, dark=True)
        page.go(broker.http_url + "/?every=2")
        broker.kill()
        page.until(gone)
        assert page.run(STICKS_OUT) is False and page.run(FAINT) == []
        assert "The broker does not answer." in page.run(text) and len(page.names("alert")) == 1
        assert page.run("document.title").startswith("No answer: ")
        broker.start()
        page.until("!(" + gone + ")")
        assert page.run("document.title").startswith("EmberMQ on ")
        assert page.run("document.querySelectorAll('main').length") == 1


@pytest.mark.parametrize(
    ("name", "password", "dark", "status", "told"),
    [
        ("guest", "wrong", True, 401, "This page needs the name and the password"),
        ("plain", "plain", False, 401, "You are plain, who may not see this page: Not management user."),
        ("looker", "looker", True, 200, "looker has permissions in no virtual host"),
    ],
)
def test_those_who_may_not_see_it_are_told(
    browser: Chromium, broker: EmbeddedBroker, name: str, password: str, dark: bool, status: int, told: str
) -> None:
    browser.login(name, password)
    browser.look(width=400, dark=dark)
    browser.go(broker.http_url + "/")
    assert browser.status() == status
    assert told in browser.run("document.body.innerText")
    assert browser.run(STICKS_OUT) is False and browser.run(FAINT) == []
    assert "orders." not in browser.run("document.body.innerText")
    browser.go(broker.http_url + "/nothing")
    assert browser.status() == 404 and "There is nothing here." in browser.run("document.body.innerText")
    browser.go(broker.http_url + "/api/queues")
    assert browser.run("JSON.parse(document.body.innerText)") is not None, "programs read JSON"
