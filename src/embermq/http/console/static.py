"""The files of the console, `web/`: read and compressed once, and sent again only when they changed."""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from embermq.http.openapi import schemas
from embermq.http.openapi.route_docs import describes
from embermq.http.server.request import Request, Response, not_found

WEB = Path(__file__).parent / "web"
CONTENT_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
POLICY = (
    "content-security-policy",
    (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
)


@dataclass(frozen=True)
class File:
    content_type: str
    body: bytes
    compressed: bytes
    etag: str


@cache  # a few dozen small files, and no others: see `file_at`
def loaded(path: Path) -> File:
    body = path.read_bytes()
    etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    return File(CONTENT_TYPES[path.suffix], body, gzip.compress(body, mtime=0), etag)


@cache
def paths() -> dict[str, Path]:
    """What may be asked for, by address: names of ours only, so that no path leads elsewhere."""
    files = (path for path in WEB.rglob("*") if path.suffix in CONTENT_TYPES)
    return {path.relative_to(WEB).as_posix(): path for path in files}


def file_at(request: Request, address: str) -> Response:
    path = paths().get(address)
    if path is None:
        raise not_found()
    file = loaded(path)
    headers = [POLICY, ("etag", file.etag), ("vary", "accept-encoding")]
    if file.etag in request.headers.get("if-none-match", ""):
        return Response(304, headers=tuple(headers))
    if "gzip" not in request.headers.get("accept-encoding", ""):
        return Response(200, file.body, file.content_type, tuple(headers))
    headers.append(("content-encoding", "gzip"))
    return Response(200, file.compressed, file.content_type, tuple(headers))


@describes("The console: an application in the browser.", answer=schemas.TEXT, content_type="text/html")
def index(request: Request) -> Response:
    return file_at(request, "index.html")


@describes("A file of the console.", answer=schemas.TEXT, content_type="*/*")
def file(request: Request) -> Response:
    return file_at(request, "/".join(request.segments[1:]))
