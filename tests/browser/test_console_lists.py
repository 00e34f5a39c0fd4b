"""Lists of the console: filtered by virtual host, columns chosen, many selected at once, and taken back."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pika
import pika.exceptions
import pytest

from embermq.testing import EmbeddedBroker
from tests.browser.chromium import Chromium
from tests.browser.console import press_button, row_names, show, sign_in, type_in, until_text
from tests.browser.seen import ask, put

pytestmark = pytest.mark.once("what a browser shows does not depend on compilation")

MANY = 120  # more than two pages


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        put(running, "/api/vhosts/shop", {})
        for number in range(MANY):
            put(running, f"/api/queues/shop/job.{number}", {"durable": True})
        put(running, "/api/queues/%2F/orders", {"durable": True})
        yield running


@pytest.fixture
def guest(browser: Chromium, broker: EmbeddedBroker) -> Chromium:
    sign_in(browser, broker, "guest", "guest")
    browser.look()
    return browser


def rows(page: Chromium, count: int) -> None:
    page.until(f"document.querySelectorAll('tbody tr').length === {count}")


def choose(page: Chromium, name: str, value: str) -> None:
    page.until(f'!!document.querySelector(\'select[name="{name}"] option[value="{value}"]\')')
    field = f"document.querySelector('select[name=\"{name}\"]')"
    page.run(f"{field}.value = '{value}'")
    page.run(f"{field}.dispatchEvent(new Event('change', {{bubbles: true}}))")


def select_all(page: Chromium) -> None:
    page.run("document.querySelector('thead input').click()")


def test_one_virtual_host_and_the_columns_are_in_the_address(guest: Chromium, broker: EmbeddedBroker) -> None:
    show(guest, broker, "queues")
    rows(guest, 50)
    choose(guest, "vhost", "/")
    rows(guest, 1)
    assert row_names(guest) == ["orders"]
    guest.run("[...document.querySelectorAll('.menu label')].find(l => l.innerText.trim() === 'Size')")
    guest.run("document.querySelector('.menu summary').click()")
    guest.run(
        "[...document.querySelectorAll('.menu label')].find(l => l.innerText.trim() === 'Size')"
        ".querySelector('input').click()"
    )
    until_text(guest, "Size", "thead")
    address = guest.run("location.hash")
    show(guest, broker, address[2:])
    rows(guest, 1)
    until_text(guest, "Size", "thead")


def test_what_is_selected_stays_over_pages_and_all_that_is_found_can_be(
    guest: Chromium, broker: EmbeddedBroker
) -> None:
    show(guest, broker, "queues?vhost=shop&name=job")
    rows(guest, 50)
    select_all(guest)
    press_button(guest, "Next")
    rows(guest, 50)
    guest.until("document.querySelector('td.name').innerText !== 'job.0'")
    select_all(guest)
    until_text(guest, "100 queues selected", ".actions")
    press_button(guest, f"Select all {MANY}")
    until_text(guest, f"{MANY} queues selected", ".actions")
    press_button(guest, "Delete", ".actions")
    until_text(guest, "and 110 more", "dialog")
    until_text(guest, "0 messages will be lost and 0 consumers cancelled", "dialog")
    press_button(guest, "Delete", "dialog")
    until_text(guest, f"Delete: {MANY} queues.", ".notice")
    until_text(guest, "Nothing is found.")
    assert ask(broker, "GET", "/api/queues/shop") == []


def test_messages_of_several_queues_are_moved_by_tasks(guest: Chromium, broker: EmbeddedBroker) -> None:
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        for name in ("north", "south", "all"):
            channel.queue_declare(name)
        for name in ("north", "south") * 20:
            channel.basic_publish("", name, b"x")
        show(guest, broker, "queues?name=th")
        rows(guest, 2)
        select_all(guest)
        press_button(guest, "Move messages", ".actions")
        type_in(guest, "destination", "nowhere")
        press_button(guest, "Move messages", "dialog")
        until_text(guest, "no queue 'nowhere'", "dialog [role=alert]")
        assert guest.run("document.activeElement.name") == "destination"  # the refusal is at its field
        type_in(guest, "destination", "all")
        press_button(guest, "Move messages", "dialog")
        until_text(guest, "Tasks", "h1")
        rows(guest, 2)
        until_text(guest, "done", "tbody tr:nth-child(1)")
        until_text(guest, "done", "tbody tr:nth-child(2)")
        assert ask(broker, "GET", "/api/queues/%2F/all")["messages"] == 40


def test_bindings_policies_users_and_exchanges_come_back(guest: Chromium, broker: EmbeddedBroker) -> None:
    put(broker, "/api/exchanges/%2F/news", {"type": "topic"})
    put(broker, "/api/bindings/%2F/e/news/q/orders", {"routing_key": "a.#", "arguments": {"x": 1}}, "POST")
    put(broker, "/api/policies/%2F/short", {"pattern": "^o", "definition": {"max-length": 5}, "priority": 7})
    put(broker, "/api/users/ada", {"password": "secret", "tags": "management"})
    put(broker, "/api/permissions/%2F/ada", {"configure": "", "write": "^a", "read": ".*"})
    before = ask(broker, "GET", "/api/definitions")
    for address, name, verb in (
        ("bindings?sort=source&sort_reverse=true", "news", "Unbind"),
        ("policies", "short", "Delete"),
        ("users", "ada", "Delete"),
        ("exchanges?name=news", "news", "Delete"),
        ("permissions?name=ada", "ada", "Take away"),
    ):
        show(guest, broker, address)
        until_text(guest, name, "tbody")
        row = f"[...document.querySelectorAll('tbody tr')].find(r => r.innerText.includes('{name}'))"
        guest.run(f"{row}.querySelector('input').click()")
        press_button(guest, verb, ".actions")
        press_button(guest, verb, "dialog")
        until_text(guest, f"{verb}: 1 ", ".notice")
        assert ask(broker, "GET", "/api/definitions") != before
        press_button(guest, "Undo", ".notice")
        until_text(guest, "Taken back.", ".notice")
        assert ask(broker, "GET", "/api/definitions") == before, address
    assert ask(broker, "GET", "/api/whoami", "ada:secret")["name"] == "ada"  # with the old password


def test_a_connection_is_closed_with_a_reason(guest: Chromium, broker: EmbeddedBroker) -> None:
    told: list[str] = []

    def wait_for_the_end(connection: pika.BlockingConnection) -> None:
        try:
            while True:
                connection.process_data_events(1)
        except pika.exceptions.ConnectionClosed as closed:
            told.append(closed.reply_text)

    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    waiting = threading.Thread(target=wait_for_the_end, args=(connection,))
    waiting.start()
    show(guest, broker, "connections")
    rows(guest, 1)
    select_all(guest)
    press_button(guest, "Close", ".actions")
    type_in(guest, "reason", "time for tea")
    press_button(guest, "Close", "dialog")
    until_text(guest, "Close: 1 connection.", ".notice")
    waiting.join(30)
    assert len(told) == 1 and "time for tea" in told[0]


def test_what_is_refused_is_counted_and_the_rest_is_done(guest: Chromium, broker: EmbeddedBroker) -> None:
    for name in ("tea.1", "tea.2"):
        put(broker, f"/api/vhosts/{name}", {})
    show(guest, broker, "vhosts?name=tea")
    rows(guest, 2)
    select_all(guest)
    press_button(guest, "Delete", ".actions")
    put(broker, "/api/vhosts/tea.2/deletion/protection", {}, "POST")
    press_button(guest, "Delete", "dialog")
    until_text(
        guest, "1 virtual host of 2 refused: Refusing to delete virtual host 'tea.2'", "dialog [role=alert]"
    )
    assert [v["name"] for v in ask(broker, "GET", "/api/vhosts") if "tea" in v["name"]] == ["tea.2"]
