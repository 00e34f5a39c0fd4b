"""Addresses of documents that the broker fetches: over TLS, or from this machine."""

from __future__ import annotations

from urllib.parse import urlsplit

LOCAL_HOSTS = ("127.0.0.1", "::1", "localhost")


def problem_of(url: str) -> str:
    """What is wrong with such an address; empty where nothing is."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        return str(error)
    if parts.scheme not in ("https", "http") or not host or parts.username is not None:
        return "expected https://host/path"
    if parts.scheme == "http" and host not in LOCAL_HOSTS:
        return "expected https, because anybody on the way could change what comes without it"
    return ""
