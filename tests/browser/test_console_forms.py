"""Pages and forms of the console: add, change, test and delete what the API has, refused at its field."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pika
import pytest

from embermq.testing import EmbeddedBroker
from tests.browser.chromium import Chromium
from tests.browser.console import press_button, show, sign_in, type_in, until_text
from tests.browser.seen import ask, put

pytestmark = pytest.mark.once("what a browser shows does not depend on compilation")


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        put(running, "/api/queues/%2F/orders", {"durable": True})
        yield running


@pytest.fixture
def guest(browser: Chromium, broker: EmbeddedBroker) -> Chromium:
    sign_in(browser, broker, "guest", "guest")
    browser.look()
    return browser


def test_a_user_is_added_given_permissions_tested_and_deleted(
    guest: Chromium, broker: EmbeddedBroker
) -> None:
    show(guest, broker, "add/user")
    type_in(guest, "name", "alice")
    type_in(guest, "password", "secret")
    type_in(guest, "tags", "management, monitoring")
    press_button(guest, "Add")
    until_text(guest, "alice", "h1")
    assert ask(broker, "GET", "/api/whoami", "alice:secret")["tags"] == ["management", "monitoring"]
    show(guest, broker, "grant?user=alice")
    type_in(guest, "write", "(")
    press_button(guest, "Give")
    until_text(guest, "invalid_regexp", ".problem")
    assert guest.run("document.activeElement.name") == "write"
    type_in(guest, "write", "^shop")
    press_button(guest, "Give")
    until_text(guest, "^shop", "table")
    show(guest, broker, "permission-test?user=alice")
    for name, answer in (("shop.new", "Yes: the pattern"), ("orders", "No: the pattern")):
        type_in(guest, "name", name)
        press_button(guest, "Test")
        until_text(guest, answer)
    show(guest, broker, "users/alice")
    type_in(guest, "password", "other")
    press_button(guest, "Save")
    until_text(guest, "The user is changed.", ".notice")
    assert ask(broker, "GET", "/api/whoami", "alice:other")["name"] == "alice"
    press_button(guest, "Delete", ".over")
    press_button(guest, "Delete", "dialog")
    until_text(guest, "There is no such user.")


def test_a_policy_is_added_refused_at_its_field_changed_and_deleted(
    guest: Chromium, broker: EmbeddedBroker
) -> None:
    show(guest, broker, "add/policies")
    type_in(guest, "name", "short")
    type_in(guest, "pattern", "^orders")
    type_in(guest, "max-length", "-5")
    press_button(guest, "Add")
    until_text(guest, "-5 is not a valid maximum length", ".problem")
    assert guest.run("document.activeElement.name") == "max-length"
    type_in(guest, "max-length", "5")
    press_button(guest, "Add")
    until_text(guest, "short", "td.name")
    assert ask(broker, "GET", "/api/queues/%2F/orders")["effective_policy_definition"] == {"max-length": 5}
    show(guest, broker, "policies/%2F/short")
    type_in(guest, "max-length", "7")
    press_button(guest, "Save")
    until_text(guest, "Change the policy: done.", ".notice")
    assert ask(broker, "GET", "/api/policies/%2F/short")["definition"] == {"max-length": 7}


def test_a_virtual_host_a_limit_and_a_template(guest: Chromium, broker: EmbeddedBroker) -> None:
    show(guest, broker, "add/vhost")
    type_in(guest, "name", "shop")
    type_in(guest, "description", "of tea")
    press_button(guest, "Add")
    until_text(guest, "shop", "h1")
    assert ask(broker, "GET", "/api/vhosts/shop")["description"] == "of tea"
    show(guest, broker, "set/limit?of=vhost&vhost=shop&name=max-queues")
    type_in(guest, "limit", "3")
    press_button(guest, "Set")
    until_text(guest, "max-queues", "tbody")
    assert ask(broker, "GET", "/api/vhost-limits/shop")[0]["value"] == {"max-queues": 3}
    show(guest, broker, "add/template")
    type_in(guest, "name", "jobs")
    type_in(guest, "x-message-ttl", "5")
    press_button(guest, "Save")
    until_text(guest, "jobs", "td.name")
    assert ask(broker, "GET", "/api/templates/jobs")["arguments"] == {"x-message-ttl": 5}


def test_an_exchange_is_bound_and_unbound_and_both_ends_are_links(
    guest: Chromium, broker: EmbeddedBroker
) -> None:
    show(guest, broker, "bind?source=amq.topic")
    type_in(guest, "destination", "nowhere")
    press_button(guest, "Bind")
    guest.until("document.querySelector('main [role=alert]')?.innerText.length > 3")
    type_in(guest, "destination", "orders")
    type_in(guest, "routing_key", "order.#")
    press_button(guest, "Bind")
    until_text(guest, "order.#", "table")
    assert guest.run("!!document.querySelector('a[href=\"#/queues/%2F/orders\"]')")
    press_button(guest, "Unbind", "table")
    press_button(guest, "Unbind", "dialog")
    until_text(guest, "Unbind: 1 binding.", ".notice")
    press_button(guest, "Undo", ".notice")
    until_text(guest, "Taken back.", ".notice")
    assert len(ask(broker, "GET", "/api/exchanges/%2F/amq.topic/bindings/source")) == 1


def test_a_connection_its_channel_and_its_consumer(guest: Chromium, broker: EmbeddedBroker) -> None:
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        channel.basic_qos(prefetch_count=7)
        channel.basic_consume("orders", lambda *_: None, consumer_tag="kitchen")
        show(guest, broker, "connections")
        guest.until("!!document.querySelector('td.name a')")
        guest.run("document.querySelector('td.name a').click()")
        until_text(guest, "Pika", "#client ~ div, section[aria-labelledby=client]")
        guest.until("!!document.querySelector('section[aria-labelledby=channels] td.name a')")
        guest.run("document.querySelector('section[aria-labelledby=channels] td.name a').click()")
        until_text(guest, "kitchen", "table")
        until_text(guest, "7", "tbody")


def test_definitions_are_previewed_before_they_come_in(guest: Chromium, broker: EmbeddedBroker) -> None:
    document = {
        "queues": [
            {"name": "new", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}},
            {"name": "orders", "vhost": "/", "durable": False, "auto_delete": False, "arguments": {}},
        ]
    }
    show(guest, broker, "definitions")
    type_in(guest, "document", "{")
    press_button(guest, "Preview")
    until_text(guest, "this is no JSON", ".problem")
    type_in(guest, "document", json.dumps(document))
    press_button(guest, "Preview")
    until_text(guest, "will be added", "table")
    until_text(guest, "stays as it is", "table")
    assert "new" not in [queue["name"] for queue in ask(broker, "GET", "/api/queues/%2F")]
    press_button(guest, "Import")
    until_text(guest, "Imported: 2 changes.", ".notice")
    assert "new" in [queue["name"] for queue in ask(broker, "GET", "/api/queues/%2F")]


def test_what_a_role_may_not_do_is_not_offered(browser: Chromium, broker: EmbeddedBroker) -> None:
    shown = {}
    for role in ("management", "policymaker", "monitoring", "administrator"):
        put(broker, f"/api/users/{role}", {"password": role, "tags": role})
        put(broker, f"/api/permissions/%2F/{role}", {"configure": "", "write": "", "read": ".*"})
        sign_in(browser, broker, role, role)
        browser.look()
        links = "[...document.querySelectorAll('nav[aria-label=Pages] a')].map(a => a.innerText)"
        shown[role] = set(browser.run(links))
        show(browser, broker, "policies")
        until_text(browser, "Policies", "h1")
        offered = browser.run("[...document.querySelectorAll('main a.button')].map(a => a.innerText)")
        assert (offered == ["Add a policy"]) is (role in ("policymaker", "administrator")), role
        if role != "administrator":
            show(browser, broker, "users")
            until_text(browser, "Not administrator user", "[role=alert]")
            show(browser, broker, "log")
            until_text(browser, "Not administrator user", "[role=alert]")
    only = {"Users", "Permissions", "Definitions", "Traces"}
    assert only <= shown["administrator"]
    for role in ("management", "policymaker", "monitoring"):
        assert not only & shown[role]


def test_a_user_without_a_tag_cannot_sign_in(browser: Chromium, broker: EmbeddedBroker) -> None:
    put(broker, "/api/users/nobody", {"password": "nobody", "tags": ""})
    browser.login("nobody", "nobody")
    browser.look()
    show(browser, broker, "")
    type_in(browser, "username", "nobody")
    type_in(browser, "password", "nobody")
    press_button(browser, "Sign in")
    until_text(browser, "Not management user")
