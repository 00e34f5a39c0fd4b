"""The router: a tree of path segments, in which a name in braces stands for any segment."""

from __future__ import annotations

from typing import NamedTuple

from embermq.http.server.auth import ALLOWED_TAGS
from embermq.http.server.request import Handler, not_found

OPEN_TO_ALL = ""  # a route without login
OPEN_BODY_BYTES_MAX = 4096  # of requests without login: name and password in a form
BODY_BYTES_MAX = 128 * 1024  # parsing JSON that was made to be slow takes 4 ms then
METHODS = ("GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS")


class Route(NamedTuple):
    method: str
    path: str
    handler: Handler
    level: str  # the tag that opens it
    body_bytes_max: int


class Node:
    """One step of a path: named steps below it, or one that stands for any name."""

    def __init__(self) -> None:
        self.steps: dict[str, Node] = {}
        self.any: Node | None = None
        self.name = ""  # of what stands there, for `any`
        self.methods: dict[str, Route] = {}


class Routes:
    def __init__(self) -> None:
        self.root = Node()
        self.all: list[Route] = []

    def add(
        self, method: str, path: str, handler: Handler, level: str, body_bytes_max: int = BODY_BYTES_MAX
    ) -> None:
        assert level == OPEN_TO_ALL or level in ALLOWED_TAGS, f"{method} {path}: for whom?"
        node = self.root
        for step in path.strip("/").split("/"):
            if step.startswith("{"):
                if node.any is None:
                    node.any = Node()
                    node.any.name = step.strip("{}")
                node = node.any
            else:
                node = node.steps.setdefault(step, Node())
        assert method not in node.methods, f"{method} {path} twice"
        bytes_max = OPEN_BODY_BYTES_MAX if level == OPEN_TO_ALL else body_bytes_max
        node.methods[method] = Route(method, path, handler, level, bytes_max)
        self.all.append(node.methods[method])

    def find(self, segments: list[str]) -> tuple[Node, dict[str, str]]:
        found = walk(self.root, segments)
        if found is None:
            raise not_found()
        return found


def walk(node: Node, segments: list[str]) -> tuple[Node, dict[str, str]] | None:
    """Words of the table first; where they lead nowhere, the segment is the name of an object."""
    if not segments:
        return (node, {}) if node.methods else None
    step = node.steps.get(segments[0])
    found = walk(step, segments[1:]) if step is not None else None
    if found is None and node.any is not None:
        found = walk(node.any, segments[1:])
        if found is not None:
            found[1][node.any.name] = segments[0]
    return found
