"""Addresses of the pages of queues."""

from __future__ import annotations

from html import escape
from urllib.parse import quote, urlencode

# Browsers take these for directions, however they are written, and never ask for them.
DIRECTIONS = (".", "..")


def queue_address(vhost: str, name: str, beside: str = "") -> str:
    """Escaped for an attribute; `beside` is a query."""
    if vhost in DIRECTIONS or name in DIRECTIONS:
        known = urlencode({"vhost": vhost, "name": name}, errors="surrogateescape")
        return escape(f"/queues?{known}{'&' if beside else ''}{beside}")
    path = "/".join(quote(part, safe="", errors="surrogateescape") for part in (vhost, name))
    return escape(f"/queues/{path}{'?' if beside else ''}{beside}")


def queue_in_api(vhost: str, name: str) -> str:
    """The same for programs. Escaped, too."""
    return escape(f"/api/queues/{quote(vhost, safe='', errors='surrogateescape')}/") + escape(
        quote(name, safe="", errors="surrogateescape")
    )
