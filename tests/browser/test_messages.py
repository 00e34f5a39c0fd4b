"""Messages in a real browser: searched and opened where they are, published, copied, returned, kept."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest

from embermq.testing import EmbeddedBroker
from tests.browser.chromium import Chromium
from tests.browser.seen import put
from tests.browser.test_console import NASTY, check_looks, press_button, show, sign_in, type_in, until_text

pytestmark = pytest.mark.once("what a browser shows does not depend on compilation")

COUNT = 25


def png() -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    pixels = zlib.compress(b"\0\xff\x80\0")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running, pika.BlockingConnection(pika.URLParameters(running.url)) as connection:
        channel = connection.channel()
        dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
        put(running, "/api/queues/%2F/orders", {"arguments": dead})
        for name in ("dead", "copies", "bodies"):
            put(running, f"/api/queues/%2F/{name}", {})
        put(running, "/api/queues/%2F/log", {"durable": True, "arguments": {"x-queue-type": "stream"}})
        channel.confirm_delivery()
        for number in range(COUNT):
            headers = {"price": number, NASTY: NASTY}
            properties = pika.BasicProperties(headers=headers, content_type="application/json")
            for queue in ("orders", "log"):
                channel.basic_publish("", queue, json.dumps({"n": number, NASTY: NASTY}).encode(), properties)
        for body, kind in ((png(), "image/png"), (b"\x81\xa3tea\x02", "application/msgpack")):
            channel.basic_publish("", "bodies", body, pika.BasicProperties(content_type=kind))
        channel.basic_publish("", "bodies", f"<a><b>{NASTY}</b></a>".encode())
        yield running


@pytest.fixture
def guest(browser: Chromium, broker: EmbeddedBroker) -> Chromium:
    sign_in(browser, broker, "guest", "guest")
    browser.look()
    return browser


def count_of(page: Chromium, count: int) -> None:
    page.until(f"document.querySelectorAll('.message').length === {count}")


def open_all(page: Chromium) -> None:
    page.run("document.querySelectorAll('.message > summary').forEach(summary => summary.click())")


def test_messages_are_searched_and_kept(guest: Chromium, broker: EmbeddedBroker, tmp_path: Path) -> None:
    show(guest, broker, "queues/%2F/orders")
    press_button(guest, "Look")
    count_of(guest, 10)
    press_button(guest, "More")
    count_of(guest, 20)
    type_in(guest, "selector", "price >= 20")
    press_button(guest, "Look")
    count_of(guest, 5)
    open_all(guest)
    until_text(guest, "n: 20", ".message .body")
    until_text(guest, "price 20 integer", ".message")
    check_looks(guest)
    guest.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    press_button(guest, "Download as JSON lines")
    until_text(guest, "5 messages")
    guest.until("true")
    file = tmp_path / "orders.jsonl"
    while not file.exists() or file.read_text().count("\n") < 5:
        guest.until("true")
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["properties"]["headers"]["price"] for line in lines] == [20, 21, 22, 23, 24]
    type_in(guest, "selector", "price >=")
    press_button(guest, "Look")
    guest.until("!!document.querySelector('form[aria-label=\"Look at messages\"] [role=alert]')")


def test_bodies_by_their_content_type(guest: Chromium, broker: EmbeddedBroker) -> None:
    show(guest, broker, "queues/%2F/bodies")
    press_button(guest, "Look")
    count_of(guest, 3)
    open_all(guest)
    guest.until("document.querySelector('.body-image')?.naturalWidth === 1")
    until_text(guest, "tea: 2", ".message .body")
    until_text(guest, NASTY, ".message pre")
    check_looks(guest)


def test_a_stream_is_read_from_any_offset(guest: Chromium, broker: EmbeddedBroker) -> None:
    show(guest, broker, "queues/%2F/log")
    type_in(guest, "from", "22")
    press_button(guest, "Look")
    count_of(guest, 3)
    type_in(guest, "from", "2001-01-01 00:00")
    press_button(guest, "Look")
    count_of(guest, 10)


def test_copied_with_a_filter_and_dead_letters_returned(guest: Chromium, broker: EmbeddedBroker) -> None:
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        method, _, _ = channel.basic_get("orders")
        assert method is not None
        channel.basic_reject(method.delivery_tag, requeue=False)
    show(guest, broker, "queues/%2F/orders")
    type_in(guest, "selector", "price > 20")
    guest.run("document.querySelector('.transfer summary').click()")
    type_in(guest, "destination", "copies")
    press_button(guest, "Continue")
    until_text(guest, "4 messages of orders fit; they go to copies", "dialog")
    press_button(guest, "Copy", "dialog")
    until_text(guest, "4 messages of", ".transfer [role=status]")
    show(guest, broker, "queues/%2F/dead")
    press_button(guest, "Look")
    count_of(guest, 1)
    open_all(guest)
    until_text(guest, "It was rejected in queue orders", ".story")


def test_published_with_properties_and_more_than_once(guest: Chromium, broker: EmbeddedBroker) -> None:
    show(guest, broker, "queues/%2F/copies")
    type_in(guest, "payload", "tea")
    type_in(guest, "properties", '{"message_id": "m-17", "priority": 3}')
    type_in(guest, "repeat", "3")
    press_button(guest, "Publish")
    until_text(guest, "3 messages published.")
    type_in(guest, "body", "tea")
    press_button(guest, "Look")
    count_of(guest, 3)
    open_all(guest)
    until_text(guest, "message_id m-17", ".message")
    type_in(guest, "properties", "nonsense")
    press_button(guest, "Publish")
    until_text(guest, "properties must be a JSON object", "[role=alert]")
