"""The console as its tests use it: sign in, go to a page, type, press, wait for a text, check the looks."""

from __future__ import annotations

import json
from urllib.parse import quote

from embermq.testing import EmbeddedBroker
from tests.browser.chromium import Chromium
from tests.browser.seen import FAINT, STICKS_OUT

NASTY = "<script>alert(1)</script>\"><img src=x onerror=alert(1)>&amp;' ☕"
IN_PATH = quote(NASTY, safe="")


def show(page: Chromium, broker: EmbeddedBroker, address: str) -> None:
    page.go("about:blank")  # another hash alone loads nothing
    page.go(f"{broker.http_url}/console/#/{address}")


def type_in(page: Chromium, name: str, text: str) -> None:
    field = f"document.querySelector('[name=\"{name}\"]')"
    page.until(
        f"(field => {{ field?.focus(); return !!field && document.activeElement === field }})({field})"
    )
    page.run(f"{field}.select()")
    page.call("Input.insertText", text=text)


def press_button(page: Chromium, text: str, within: str = "body") -> None:
    found = f"[...document.querySelectorAll('{within} button')].find(b => b.innerText.trim() === '{text}')"
    page.until(f"!!{found} && !{found}.disabled")
    page.run(f"{found}.click()")


def until_text(page: Chromium, text: str, within: str = "body") -> None:
    page.until(
        f"(document.querySelector({json.dumps(within)})?.innerText ?? '').includes({json.dumps(text)})"
    )


def sign_in(page: Chromium, broker: EmbeddedBroker, name: str, password: str) -> None:
    page.login(name, password)  # a window that knows nobody
    page.look()
    show(page, broker, "")
    type_in(page, "username", name)
    type_in(page, "password", password)
    press_button(page, "Sign in")
    until_text(page, "Overview", "h1")


def row_names(page: Chromium) -> list[str]:
    return list(
        page.run("[...document.querySelectorAll('tbody td.name')].map(cell => cell.innerText.trim())")
    )


def check_looks(page: Chromium) -> None:
    assert page.complaints() == []
    thrown = [event for event in page.events if event.get("method") == "Runtime.exceptionThrown"]
    dialogs = [event for event in page.events if event.get("method") == "Page.javascriptDialogOpening"]
    assert thrown == [] and dialogs == []
    assert (
        page.run("document.scripts.length") == 2 and page.run("document.querySelector('img[src=x]')") is None
    )
    assert page.run(STICKS_OUT) is False
    assert page.run(FAINT) == []
