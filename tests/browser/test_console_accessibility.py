"""axe-core on the pages of the console, light and dark: nothing serious."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from embermq.testing import EmbeddedBroker
from tests.browser.chromium import Chromium
from tests.browser.console import show, sign_in
from tests.browser.seen import put

pytestmark = pytest.mark.once("what a browser shows does not depend on compilation")

AXE = Path(__file__).parents[1] / "interop/node/node_modules/axe-core/axe.min.js"
PAGES = (
    *("", "queues", "queues/%2F/orders", "streams", "exchanges", "exchanges/%2F/amq.topic", "bindings"),
    *("connections", "policies", "policies/%2F/short", "add/policies", "limits", "templates"),
    *("vhosts", "vhosts/%2F", "users", "users/guest", "permissions", "permission-test", "grant"),
    *("definitions", "traces", "log", "about", "declare/queue", "declare/exchange"),
)
SERIOUS = """
axe.run(document, {resultTypes: ["violations"]}).then(({violations}) => {
  window.found = violations.filter(({impact}) => ["serious", "critical"].includes(impact))
    .map(({id, nodes}) => id + ": " + nodes.slice(0, 3).map(({html}) => html.slice(0, 120)).join(" | "));
}); 0
"""


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        put(running, "/api/queues/%2F/orders", {"durable": True})
        put(running, "/api/policies/%2F/short", {"pattern": "^o", "definition": {"max-length": 5}})
        yield running


def test_nothing_serious_on_any_page(browser: Chromium, broker: EmbeddedBroker) -> None:
    if not AXE.exists():
        pytest.skip("axe-core is not installed (make test-needs)")
    sign_in(browser, broker, "guest", "guest")
    found: dict[str, list[str]] = {}
    for dark in (False, True):
        browser.look(dark=dark)
        for address in PAGES:
            show(browser, broker, address)
            browser.until("!!document.querySelector('main h1')")
            browser.run(AXE.read_text() + "; window.found = null; 0")
            browser.run(SERIOUS)
            browser.until("window.found !== null")
            if problems := browser.run("window.found"):
                found[f"{address} {'dark' if dark else 'light'}"] = problems
    assert found == {}
