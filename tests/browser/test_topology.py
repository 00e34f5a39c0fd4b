"""The topology and the route tester in a real browser."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pika
import pytest

from embermq.testing import EmbeddedBroker
from tests.browser.chromium import Chromium
from tests.browser.seen import put
from tests.browser.test_console import NASTY, check_looks, press_button, show, sign_in, type_in, until_text

pytestmark = pytest.mark.once("what a browser shows does not depend on compilation")

SHOP = {
    "orders": ("topic", [("billing", "order.paid"), ("shipping", "order.paid"), ("search", "order.#")]),
    "stock": ("direct", [("warehouse", "low"), ("purchasing", "low")]),
    "audit": ("fanout", [("audit.log", "")]),
    "unrouted": ("fanout", [("lost.and.found", "")]),
    "dead": ("topic", [("dead.letters", "#")]),
    NASTY: ("headers", [(NASTY, NASTY)]),
}
MANY = 30


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        fill(running)
        yield running


def fill(broker: EmbeddedBroker) -> None:
    for exchange, (kind, bindings) in SHOP.items():
        arguments = {"alternate-exchange": "unrouted"} if exchange == "orders" else {}
        put(broker, f"/api/exchanges/%2F/{quote(exchange, safe='')}", {"type": kind, "arguments": arguments})
        for queue, key in bindings:
            dead = {"x-dead-letter-exchange": "dead"} if queue in ("billing", "shipping") else {}
            put(broker, f"/api/queues/%2F/{quote(queue, safe='')}", {"arguments": dead})
            path = f"/api/bindings/%2F/e/{quote(exchange, safe='')}/q/{quote(queue, safe='')}"
            put(broker, path, {"routing_key": key}, "POST")
    for number in range(MANY):
        put(broker, f"/api/queues/%2F/session.{number}", {})
        put(broker, f"/api/bindings/%2F/e/amq.fanout/q/session.{number}", {}, "POST")
    put(broker, "/api/bindings/%2F/e/orders/e/audit", {"routing_key": "#"}, "POST")


@pytest.fixture
def guest(browser: Chromium, broker: EmbeddedBroker) -> Chromium:
    sign_in(browser, broker, "guest", "guest")
    browser.look()
    return browser


def nodes(page: Chromium) -> list[str]:
    return list(page.run("[...document.querySelectorAll('.node title')].map(title => title.textContent)"))


def test_the_graph_is_filtered_grouped_and_collapsed(guest: Chromium, broker: EmbeddedBroker) -> None:
    show(guest, broker, "topology")
    guest.until("document.querySelectorAll('.node').length > 5")
    assert {*SHOP, "billing", "dead.letters", f"{MANY} queues", NASTY} <= set(nodes(guest))
    kinds = guest.run("[...document.querySelectorAll('.edge')].map(edge => edge.classList[1]).sort()")
    assert kinds.count("dead-letter") == 2 and kinds.count("alternate") == 1
    guest.run("document.querySelector('[name=grouped]').click()")
    guest.until(f"document.querySelectorAll('.node').length > {MANY}")
    assert guest.run("location.hash").endswith("grouped=no")
    type_in(guest, "filter", "warehouse")
    guest.until("document.querySelectorAll('.node').length === 2")
    assert sorted(nodes(guest)) == ["stock", "warehouse"]  # and what leads there
    type_in(guest, "filter", "orders")
    guest.until("document.querySelectorAll('.node').length === 10")
    orders = "document.getElementById('node-e:orders')"
    guest.run(f"{orders}.dispatchEvent(new MouseEvent('click', {{bubbles: true}}))")
    press_button(guest, "Hide what follows")
    guest.until("document.querySelectorAll('.node').length === 1")
    press_button(guest, "Show all")
    guest.until("document.querySelectorAll('.node').length === 10")


def test_the_keyboard_walks_along_the_edges_and_opens(guest: Chromium, broker: EmbeddedBroker) -> None:
    show(guest, broker, "topology?name=stock")
    guest.until("document.querySelectorAll('.node').length === 3")
    guest.run("document.querySelector('.graph').focus()")
    guest.press("ArrowRight")
    until_text(guest, "stock", "aside h2")
    guest.press("ArrowRight")
    until_text(guest, "queue:", "aside")
    first = guest.run("document.querySelector('aside h2').innerText")
    guest.press("ArrowUp")
    guest.until(f"document.querySelector('aside h2').innerText !== {json.dumps(first)}")
    assert {first, guest.run("document.querySelector('aside h2').innerText")} == {"warehouse", "purchasing"}
    before = guest.run("document.querySelector('.camera').getAttribute('transform')")
    guest.press("+", "+")
    assert guest.run("document.querySelector('.camera').getAttribute('transform')") != before
    guest.press("Enter", "\r")
    guest.until("location.hash.startsWith('#/queues/')")


def test_what_waits_and_is_not_delivered_is_marked(guest: Chromium, broker: EmbeddedBroker) -> None:
    parameters = pika.URLParameters(broker.url)
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        channel.basic_qos(prefetch_count=1)
        channel.basic_consume("warehouse", lambda *_: None)
        for _ in range(3):
            channel.basic_publish("stock", "low", b"tea")
        show(guest, broker, "topology?name=warehouse")
        guest.until("!!document.querySelector('.node.stuck')")
        until_text(guest, "1 stuck")


def test_the_picture_is_kept_as_svg(guest: Chromium, broker: EmbeddedBroker, tmp_path: Path) -> None:
    guest.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    show(guest, broker, "topology")
    guest.until("document.querySelectorAll('.node').length > 5")
    press_button(guest, "Save as SVG")
    file = tmp_path / "topology-default.svg"
    while not file.exists() or not file.stat().st_size:
        guest.until("true")
    text = file.read_text()
    assert text.startswith("<svg") and "billing" in text and "<script" not in text


@pytest.mark.parametrize("page", ["topology", "route-test"])
def test_it_can_be_read(guest: Chromium, broker: EmbeddedBroker, page: str) -> None:
    for width, dark in ((1200, False), (1200, True), (375, False)):
        guest.look(width=width, dark=dark)
        key = quote(NASTY, safe="")
        show(guest, broker, f"{page}?exchange={key}&key={key}")
        if page == "topology":
            guest.until("document.querySelectorAll('.node').length > 5")
        else:
            press_button(guest, "Test")
            guest.until("!!document.querySelector('.way')")
        check_looks(guest)
        if pictures := os.environ.get("EMBERMQ_PICTURES"):
            guest.picture(Path(pictures) / f"{page}-{width}{'-dark' if dark else ''}.png")


def test_a_route_is_explained(guest: Chromium, broker: EmbeddedBroker) -> None:
    show(guest, broker, "route-test")
    type_in(guest, "exchange", "orders")
    type_in(guest, "routing_key", "order.paid")
    press_button(guest, "Test")
    until_text(guest, "Reaches 4 queues", "#reached")
    reached = guest.run("[...document.querySelectorAll('.reached li')].map(item => item.innerText)")
    assert sorted(reached) == ["audit.log", "billing", "search", "shipping"]
    type_in(guest, "routing_key", "order.new")
    press_button(guest, "Test")
    until_text(guest, "Reaches 2 queues", "#reached")
    assert guest.run("document.querySelectorAll('.way:not(.matched)').length") == 2
    type_in(guest, "headers", "no JSON")
    press_button(guest, "Test")
    until_text(guest, "headers must be a JSON object", "[role=alert]")
    type_in(guest, "headers", "")
    type_in(guest, "exchange", "nowhere")
    press_button(guest, "Test")
    until_text(guest, "no exchange 'nowhere'", "[role=alert]")
    type_in(guest, "exchange", "stock")
    press_button(guest, "Test")
    until_text(guest, "Reaches no queue", "#reached")
