"""docs/http-api.md names every route, with its methods."""

from __future__ import annotations

import re
from pathlib import Path

from embermq.http.server.routes import all_routes

PAGE = Path(__file__).resolve().parents[2] / "docs" / "http-api.md"
ROW = re.compile(r"^\| `(/[^`]*)` \| ([A-Z, ]+) \| (?:same|ours) \|$", re.MULTILINE)


def test_every_route_is_on_the_page() -> None:
    written = {
        (method, path) for path, methods in ROW.findall(PAGE.read_text()) for method in methods.split(", ")
    }
    assert written == {(route.method, route.path) for route in all_routes().all}
