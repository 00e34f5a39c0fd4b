"""What the tests of every page look for: nothing sticks out, all can be read, nothing moves."""

from __future__ import annotations

import base64
import json
import urllib.request
from typing import Any

from embermq.testing import EmbeddedBroker
from tests.browser.chromium import Chromium

# Every element with text of its own: how much it differs from what is behind it (WCAG 2, 1.4.3).
FAINT = """
(() => {
  const numbers = colour => colour.match(/[0-9.]+/g).map(Number);
  const light = colour => {
    const [r, g, b] = numbers(colour).slice(0, 3).map(v => v / 255)
      .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = element => {
    for (let at = element; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if ((numbers(colour)[3] ?? 1) > 0) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const faint = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some(node => node.nodeType === 3 && node.data.trim());
    if (!own) continue;
    const pair = [light(getComputedStyle(element).color), light(ground(element))].sort((a, b) => b - a);
    const contrast = (pair[0] + 0.05) / (pair[1] + 0.05);
    if (contrast < 4.5) faint.push(element.outerHTML.slice(0, 80) + " " + contrast.toFixed(2));
  }
  return faint;
})()
"""
STICKS_OUT = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
FOCUSED = "document.activeElement.textContent || document.activeElement.name"


def ask(
    broker: EmbeddedBroker, method: str, path: str, login: str = "guest:guest", body: object = None
) -> Any:
    given = {"Authorization": "Basic " + base64.b64encode(login.encode()).decode()}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{broker.http_url}{path}", data, given, method=method)
    with urllib.request.urlopen(request, timeout=30) as answer:
        text = answer.read()
    return json.loads(text) if text else None


def put(broker: EmbeddedBroker, path: str, body: object, method: str = "PUT") -> None:
    ask(broker, method, path, body=body)


def table(page: Chromium, of: str) -> list[list[str]]:
    cells = "[...row.children].map(cell => cell.innerText.trim())"
    selected = f"section[aria-labelledby={of}] tbody tr"
    return list(page.run(f"[...document.querySelectorAll('{selected}')].map(row => {cells})"))


def check_look(page: Chromium) -> None:
    assert page.complaints() == []
    assert page.run(STICKS_OUT) is False
    assert page.run(FAINT) == []
    assert page.run("document.getAnimations().length") == 0, "nothing moves"
    assert page.run("document.scripts.length") == 0
