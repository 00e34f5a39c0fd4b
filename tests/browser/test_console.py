"""The console in a real browser: sign in, find, declare, look, publish, purge, delete, and sign out."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit

import pika
import pytest

from embermq.testing import EmbeddedBroker
from tests.browser.chromium import Chromium
from tests.browser.console import (
    IN_PATH,
    NASTY,
    check_looks,
    press_button,
    row_names,
    show,
    sign_in,
    type_in,
    until_text,
)
from tests.browser.seen import put

pytestmark = pytest.mark.once("what a browser shows does not depend on compilation")

QUEUES = 60
STREAM = {"durable": True, "arguments": {"x-queue-type": "stream"}}
BINDINGS = "bindings?sort=source&sort_reverse=true"  # those of the default exchange last
# Every page, and where a hostile name stands on it.
PAGES = (
    "",
    "queues",
    f"queues/%2F/{IN_PATH}",
    "exchanges",
    BINDINGS,
    "connections",
    "channels",
    "consumers",
    "leases",
    "streams",
    "delayed",
    "tasks",
    "policies",
    "operator-policies",
    "limits",
    "user-limits",
    "templates",
    "vhosts",
    "users",
    "permissions",
    "topic-permissions",
    "traces",
    "trace-files",
    f"exchanges/%2F/{IN_PATH}",
    f"users/{IN_PATH}",
    f"vhosts/{IN_PATH}",
    f"policies/%2F/{IN_PATH}",
    f"operator-policies/%2F/{IN_PATH}",
    f"templates/{IN_PATH}",
    "bind",
    "add/user",
    "add/vhost",
    "add/policies",
    "grant",
    "grant/topic",
    "set/limit?of=vhost",
    "permission-test",
    "start/trace",
    "definitions",
    "log",
    "about",
    "declare/queue",
    "declare/exchange",
)
RATE_IS_SEEN = "/published: now [0-9.]*[1-9]/.test(document.querySelector('main').outerHTML)"
WITH_CHARTS = ("", f"queues/%2F/{IN_PATH}")
WITHOUT_NAMES = (
    "",
    "channels",
    "declare/exchange",
    "trace-files",
    "bind",
    "add/user",
    "add/vhost",
    "definitions",
    "log",
    "about",
)


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(persistent=True) as running:
        fill(running)
        parameters = pika.URLParameters(running.url)
        parameters.heartbeat = 0  # nobody reads from it
        parameters.client_properties = {"connection_name": NASTY}
        with pika.BlockingConnection(parameters) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            order = json.dumps({"id": 17, "items": [{"tea": 2}], "note": NASTY}).encode()
            for number in range(30):
                properties = pika.BasicProperties(headers={NASTY: NASTY}, message_id=f"m{number}")
                channel.basic_publish("amq.topic", "order.new", order, properties)
            channel.basic_publish("", NASTY, bytes(range(256)))
            channel.basic_qos(prefetch_count=5)
            channel.basic_consume(NASTY, lambda *_: None, consumer_tag=NASTY)
            later = pika.BasicProperties(headers={"x-delay": 600_000})
            channel.basic_publish("", NASTY, b"later", later)
            put(
                running,
                f"/api/queues/%2F/{IN_PATH}/messages/copy",
                {"destination": "moved", "limit": 3},
                "POST",
            )
            put(running, "/api/leases/%2F/orders.1", {"name": NASTY, "max_messages": 1}, "POST")
            yield running


def fill(broker: EmbeddedBroker) -> None:
    for number in range(QUEUES):
        put(broker, f"/api/queues/%2F/orders.{number}", {"durable": True})
    arguments = {"x-dead-letter-exchange": NASTY, "x-max-length": 1000}
    put(broker, f"/api/queues/%2F/{IN_PATH}", {"durable": True, "arguments": arguments})
    put(broker, f"/api/exchanges/%2F/{IN_PATH}", {"type": "topic"})
    for source, key in (("amq.topic", "order.#"), (IN_PATH, NASTY)):
        for destination in ("orders.1", IN_PATH):
            put(broker, f"/api/bindings/%2F/e/{source}/q/{destination}", {"routing_key": key}, "POST")
    policy = {"pattern": "^orders", "definition": {"max-length": 5000}, "apply-to": "queues"}
    put(broker, f"/api/policies/%2F/{IN_PATH}", policy)
    put(broker, f"/api/vhosts/{IN_PATH}", {"description": NASTY})
    put(broker, f"/api/permissions/{IN_PATH}/guest", {"configure": ".*", "write": ".*", "read": ".*"})
    put(broker, f"/api/users/{IN_PATH}", {"password": "x", "tags": "management"})
    put(broker, f"/api/queues/%2F/{quote('stream ' + NASTY, safe='')}", STREAM)
    put(
        broker,
        f"/api/operator-policies/%2F/{IN_PATH}",
        {"pattern": "^orders", "definition": {"max-length": 9000}},
    )
    put(broker, f"/api/vhost-limits/{IN_PATH}/max-queues", {"value": 10})
    put(broker, f"/api/user-limits/{IN_PATH}/max-connections", {"value": 10})
    put(broker, f"/api/templates/{IN_PATH}", {"arguments": {"x-max-length": 5}})
    put(broker, f"/api/permissions/%2F/{IN_PATH}", {"configure": "", "write": NASTY[:8], "read": ".*"})
    put(broker, f"/api/topic-permissions/%2F/{IN_PATH}", {"exchange": "amq.topic", "write": "^a", "read": ""})
    put(broker, f"/api/traces/{IN_PATH}/everything", {"format": "text", "pattern": "#"})
    put(broker, "/api/queues/%2F/moved", {"durable": True})
    put(broker, "/api/users/watcher", {"password": "watcher", "tags": "monitoring"})
    put(broker, "/api/permissions/%2F/watcher", {"configure": "", "write": "", "read": "^orders"})


@pytest.fixture
def guest(browser: Chromium, broker: EmbeddedBroker) -> Chromium:
    sign_in(browser, broker, "guest", "guest")
    return browser


@pytest.mark.parametrize("address", PAGES)
def test_every_page_can_be_read_and_hostile_names_are_text(
    guest: Chromium, broker: EmbeddedBroker, address: str
) -> None:
    for width, dark in ((1200, False), (1200, True), (375, False)):
        guest.look(width=width, dark=dark)
        show(guest, broker, address)
        guest.until("!!document.querySelector('main h1')")
        if address not in WITHOUT_NAMES:
            # What a select shows is in its options.
            guest.until(f"document.querySelector('main').textContent.includes({json.dumps(NASTY)})")
        if address in WITH_CHARTS:
            guest.until("document.querySelectorAll('.chart canvas').length === 2")
        check_looks(guest)
        if pictures := os.environ.get("EMBERMQ_PICTURES"):
            name = (
                address.replace(IN_PATH, "hostile").replace("%2F", "").partition("?")[0].replace("/", "-")
                or "overview"
            )
            guest.picture(Path(pictures) / f"{name}-{width}{'-dark' if dark else ''}.png")


def test_signing_in_with_the_keyboard_and_out(browser: Chromium, broker: EmbeddedBroker) -> None:
    browser.login("nobody", "nothing")
    browser.look()
    show(browser, broker, "queues")
    type_in(browser, "username", "guest")
    for password in ("wrong", "guest"):
        type_in(browser, "password", password)
        browser.press("Enter", "\r")
        if password == "wrong":
            until_text(browser, "Login failed", "[role=alert]")
    until_text(browser, "Queues", "h1")  # the page that was asked for
    cookies = browser.call("Network.getCookies")["cookies"]
    assert [(c["name"], c["httpOnly"], c["sameSite"]) for c in cookies] == [
        ("embermq-session", True, "Strict")
    ]
    press_button(browser, "Sign out")
    browser.until("!!document.querySelector('[name=password]')")
    assert browser.call("Network.getCookies")["cookies"] == []


def test_a_list_is_searched_sorted_and_paged_in_its_address(guest: Chromium, broker: EmbeddedBroker) -> None:
    guest.look()
    show(guest, broker, "queues")
    guest.until("document.querySelectorAll('tbody tr').length === 50")
    press_button(guest, "Next")
    guest.until(f"document.querySelectorAll('tbody tr').length === {QUEUES + 4 - 50}")
    type_in(guest, "search", "orders.5")
    guest.until("document.querySelectorAll('tbody tr').length === 11")
    press_button(guest, "Name", "thead")
    guest.until("document.querySelector('th[aria-sort]')?.getAttribute('aria-sort') === 'ascending'")
    press_button(guest, "Name ▴", "thead")
    guest.until("document.querySelector('td.name').innerText === 'orders.59'")
    address = guest.run("location.hash")
    shown = {"name": ["orders.5"], "sort": ["name"], "sort_reverse": ["true"]}
    assert parse_qs(urlsplit(address[1:]).query) == shown
    show(guest, broker, address[2:])
    guest.until("document.querySelectorAll('tbody tr').length === 11")
    assert row_names(guest)[0] == "orders.59"


def test_a_queue_is_declared_used_and_deleted(guest: Chromium, broker: EmbeddedBroker) -> None:
    guest.look()
    show(guest, broker, "queues")
    until_text(guest, "Declare a queue")
    guest.run("document.querySelector('a.button').click()")
    type_in(guest, "name", "orders.1")
    type_in(guest, "x-max-length", "10")
    press_button(guest, "Declare")
    until_text(guest, "inequivalent arg 'x-max-length'", "[role=alert]")  # as the server words it
    type_in(guest, "name", "tea time/ü")
    press_button(guest, "Declare")
    until_text(guest, "tea time/ü", "h1")
    until_text(guest, "x-max-length")
    type_in(guest, "payload", '{"scone": 1}')
    press_button(guest, "Publish")
    until_text(guest, "Published.")
    press_button(guest, "Look")
    guest.until("!!document.querySelector('.message')")
    guest.run("document.querySelector('.message summary').click()")
    until_text(guest, "scone: 1", ".message .body")
    until_text(guest, "Ready\n1", "dl")
    press_button(guest, "Purge")
    until_text(guest, "1 ready message of tea time/ü", "dialog")
    press_button(guest, "Purge", "dialog")
    until_text(guest, "Ready\n0", "dl")
    press_button(guest, "Delete")
    until_text(guest, "tea time/ü in / will be deleted with 0 messages", "dialog")
    press_button(guest, "Cancel", "dialog")
    guest.until("!document.querySelector('dialog')")
    press_button(guest, "Delete")
    press_button(guest, "Delete", "dialog")
    until_text(guest, "Queues", "h1")
    guest.until("document.querySelectorAll('tbody tr').length > 1")
    assert "tea time/ü" not in row_names(guest)


def test_exchanges_are_declared_and_several_deleted_at_once(guest: Chromium, broker: EmbeddedBroker) -> None:
    guest.look()
    for name in ("brew.1", "brew.2"):
        show(guest, broker, "declare/exchange")
        type_in(guest, "name", name)
        press_button(guest, "Declare")
        until_text(guest, name, "td.name")
    type_in(guest, "search", "brew")
    guest.until("document.querySelectorAll('tbody tr').length === 2")
    guest.run("document.querySelector('thead input').click()")
    press_button(guest, "Delete")
    until_text(guest, "Delete: 2 exchanges?", "dialog")
    until_text(guest, "brew.1", "dialog")
    press_button(guest, "Delete", "dialog")
    until_text(guest, "Nothing is found.")


def test_a_user_who_may_only_look_is_offered_no_more(browser: Chromium, broker: EmbeddedBroker) -> None:
    sign_in(browser, broker, "watcher", "watcher")
    assert "Users" not in browser.run("document.querySelector('nav').innerText")
    for address, ready in (("queues", "orders.1"), ("exchanges", "amq.topic"), (BINDINGS, "order.#")):
        show(browser, broker, address)
        until_text(browser, ready, "table")
        offered = browser.run(
            "[...document.querySelectorAll('main button, main a.button')].map(b => b.innerText)"
        )
        assert not {"Delete", "Unbind", "Declare a queue", "Declare an exchange"} & set(offered)
    show(browser, broker, "queues/%2F/orders.1")
    until_text(browser, "Consumers", "#consumers")
    offered = browser.run("[...document.querySelectorAll('main button')].map(b => b.innerText)")
    assert "Delete" not in offered and "Publish" not in offered and "Purge" in offered  # which reading allows
    show(browser, broker, "users")
    until_text(browser, "Not administrator user", "[role=alert]")


def test_a_lost_broker_is_told_and_found_again(browser: Chromium, broker: EmbeddedBroker) -> None:
    sign_in(browser, broker, "guest", "guest")
    show(browser, broker, "")
    until_text(browser, "Ready", "dl")
    conditions = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    browser.call("Network.emulateNetworkConditions", offline=True, **conditions)
    until_text(browser, "The broker does not answer.", "[role=alert]")
    until_text(browser, "Ready", "dl")  # what was known stays
    browser.call("Network.emulateNetworkConditions", offline=False, **conditions)
    browser.until("!document.querySelector('[role=alert]')")


def test_what_others_change_is_told_by_events(guest: Chromium, broker: EmbeddedBroker) -> None:
    guest.look()
    show(guest, broker, "queues?name=others")
    until_text(guest, "Nothing is found.")
    put(broker, "/api/queues/%2F/others", {})
    until_text(guest, "others", "tbody")
    put(broker, "/api/queues/%2F/others", {}, "DELETE")
    until_text(guest, "Nothing is found.")


def test_rates_arrive_and_pictures_for_the_documentation(browser: Chromium, tmp_path: Path) -> None:
    """The pictures are those of docs/images: EMBERMQ_PICTURES=docs/images, for this test alone."""
    folder = Path(os.environ.get("EMBERMQ_PICTURES", tmp_path))
    with EmbeddedBroker() as broker, pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        policy = {"pattern": "^orders", "definition": {"max-length": 5000}, "apply-to": "queues"}
        put(broker, "/api/policies/%2F/short", policy)
        put(broker, "/api/queues/%2F/orders", {"durable": True, "arguments": {"x-message-ttl": 3600000}})
        put(broker, "/api/bindings/%2F/e/amq.topic/q/orders", {"routing_key": "order.#"}, "POST")
        channel = connection.channel()
        channel.basic_qos(prefetch_count=20)
        channel.basic_consume("orders", lambda *_: None, consumer_tag="kitchen")
        sign_in(browser, broker, "guest", "guest")
        browser.look(width=1000)
        for name, address in (("overview", "?span=60"), ("queue", "queues/%2F/orders?span=60")):
            show(browser, broker, address)
            browser.until("document.querySelectorAll('.chart canvas').length === 2")
            deadline = time.monotonic() + 60
            while not browser.run(RATE_IS_SEEN):
                channel.basic_publish("amq.topic", "order.new", b'{"tea": 2}')
                connection.process_data_events(0.05)
                assert time.monotonic() < deadline
            browser.picture(folder / f"console-{name}.png")
            assert (folder / f"console-{name}.png").read_bytes().startswith(b"\x89PNG")
