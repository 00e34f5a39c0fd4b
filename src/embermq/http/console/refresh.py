"""Refreshing of a page, where its user asks for that: every few seconds, by a script.

The script puts the new page in the place of the old one, so that the page stays when the broker is gone: it
says so, keeps what it showed last, and goes on asking until there is an answer. Browsers without scripts load
the page anew.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from typing import Protocol

EVERY = (("", "off"), ("2", "2 s"), ("10", "10 s"), ("60", "1 min"))

# What is typed stays, and so does the keyboard's focus on a link.
SCRIPT = """
const every = Number(new URLSearchParams(location.search).get("every")) * 1000;
const title = document.title;
const patience = 10000;

function gone() {
  if (document.getElementById("gone")) return;
  const note = document.createElement("p");
  note.id = "gone";
  note.className = "alarm";
  note.setAttribute("role", "alert");
  const strong = document.createElement("strong");
  strong.textContent = "The broker does not answer.";
  const seen = document.querySelector("header time").textContent;
  const promise = "This page keeps asking and comes back by itself.";
  note.append(strong, ` What you see is how it was at ${seen}. ${promise}`);
  document.querySelector("dl").before(note);
  document.title = "No answer: " + title;
}

async function ask() {
  let answer, text;
  try {
    const headers = {accept: "text/html"};
    answer = await fetch(location.href, {headers, cache: "no-store", signal: AbortSignal.timeout(patience)});
    text = await answer.text();
  } catch {
    gone();
    return;
  }
  if (!answer.ok) {
    location.reload();
    return;
  }
  const at = document.activeElement;
  if (at.matches("input") && !document.getElementById("gone")) return;
  const link = at.getAttribute("href");
  const fresh = new DOMParser().parseFromString(text, "text/html");
  document.title = fresh.title;
  document.querySelector("main").replaceWith(fresh.querySelector("main"));
  if (link) document.querySelector(`a[href="${CSS.escape(link)}"]`)?.focus({preventScroll: true});
}

async function forever() {
  await ask();
  setTimeout(forever, every);
}

setTimeout(forever, every);
"""
# Of all scripts that a page might have, browsers run this one.
SCRIPT_HASH = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()


class Asking(Protocol):
    """What an address asks for."""

    every: str

    def address(self, **changes: object) -> str:
        """The same page, but for these; escaped."""
        ...


def every_asked(query: Mapping[str, str]) -> str:
    """What it says wrongly counts as not said."""
    return query["every"] if query.get("every") in {seconds for seconds, _ in EVERY} else ""


def refresh_head(asking: Asking) -> str:
    if not asking.every:
        return ""
    again = f'<noscript><meta http-equiv="refresh" content="{asking.every}"></noscript>'
    return f'{again}\n<script type="module">{SCRIPT}</script>\n'


def refresh_links(asking: Asking) -> str:
    links = " ".join(
        f'<strong aria-current="true">{text}</strong>'
        if every == asking.every
        else f'<a href="{asking.address(every=every)}">{text}</a>'
        for every, text in EVERY
    )
    return f"Refresh {links}"
