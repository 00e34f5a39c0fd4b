"""The files of the console: who gets them, how, and that the vendored ones are what they say they are."""

from __future__ import annotations

import gzip
import hashlib
import http.client
import re
from urllib.parse import urlsplit

import pytest

from embermq.http.console.static import WEB, paths
from embermq.testing import EmbeddedBroker
from tests.support.http_api import Desk

FIRST_LOAD_BYTES_MAX = 300 * 1024


@pytest.mark.parametrize("path", sorted(paths()))
def test_every_file_is_served_without_a_login(desk: Desk, path: str) -> None:
    reply = desk.ask("GET", f"/console/{path}", login="")
    assert reply.status == 200 and reply.body == (WEB / path).read_bytes()
    assert "'unsafe-inline'" not in reply.headers["content-security-policy"]
    packed = desk.ask("GET", f"/console/{path}", login="", headers={"accept-encoding": "gzip, br"})
    assert packed.headers["content-encoding"] == "gzip"
    assert gzip.decompress(packed.body) == reply.body


def test_nothing_else_is_served(desk: Desk) -> None:
    for path in (
        "static.py",
        "../static.py",
        "..%2Fstatic.py",
        "lib/..%2F..%2Fstatic.py",
        "lib",
        "vendor/README.md",
    ):
        assert desk.ask("GET", f"/console/{path}", login="").status == 404, path


def test_what_has_not_changed_is_not_sent_again() -> None:
    with EmbeddedBroker() as broker:
        address = urlsplit(broker.http_url)
        connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=60)
        connection.request("GET", "/console/")
        first = connection.getresponse()
        assert first.read().startswith(b"<!doctype html>")
        assert len(first.headers.get_all("content-security-policy") or []) == 1
        assert "script-src 'self'" in first.headers["content-security-policy"]
        connection.request("GET", "/console/", headers={"If-None-Match": first.headers["etag"]})
        again = connection.getresponse()
        assert (again.status, again.read()) == (304, b"")
        connection.request("GET", "/console/app.js")  # the connection goes on
        assert connection.getresponse().status == 200
        connection.close()


def test_the_first_load_is_small() -> None:
    assert sum(len(gzip.compress(path.read_bytes())) for path in paths().values()) < FIRST_LOAD_BYTES_MAX


def test_nothing_comes_from_elsewhere() -> None:
    """No CDN, no inline script or style, no HTML from text."""
    for name, path in paths().items():
        if name.startswith("vendor/"):
            continue
        text = path.read_text()
        assert not re.search(r"https?://(?!www\.w3\.org/)", text), name
        assert "innerHTML" not in text and "dangerouslySetInnerHTML" not in text, name
        assert not re.search(r"<script(?! (defer )?(type=\"module\" )?src=)|<style|\sstyle=", text), name


def test_vendored_files_are_those_of_their_readme() -> None:
    readme = (WEB / "vendor" / "README.md").read_text()
    told = dict(re.findall(r"`(\S+)` \|.*`([0-9a-f]{64})`", readme))
    files = {path.name: path for path in (WEB / "vendor").iterdir() if path.suffix in (".js", ".css")}
    assert told == {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items()}
