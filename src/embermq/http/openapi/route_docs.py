"""`@describes`, the description of a handler: what it is for, what it takes, what it answers.

    @describes("Declare a queue.", body=schemas.QUEUE_ARGUMENTS, status=201)
    def put_queue(request: Request) -> Response: ...

The OpenAPI document, the page for people and the tests are made of these and of the table of routes, so there
is one place to write a thing down.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from embermq.http.server.request import JSON, Handler

Schema = Mapping[str, Any]
AnyHandler = TypeVar("AnyHandler", bound=Callable[..., Any])


@dataclass(frozen=True)
class Parameter:
    """A query parameter. What it may be is checked by the handler; this says so to others."""

    name: str
    about: str
    schema: Schema


@dataclass(frozen=True)
class Description:
    summary: str
    query: tuple[Parameter, ...] = ()
    body: Schema | None = None
    answer: Schema | None = None  # None: an answer without content
    statuses: tuple[int, ...] = (200,)
    content_type: str = JSON


DESCRIPTIONS: dict[Handler, Description] = {}


def describes(
    summary: str,
    *,
    query: tuple[Parameter, ...] = (),
    body: Schema | None = None,
    answer: Schema | None = None,
    status: int | tuple[int, ...] = 200,
    content_type: str = JSON,
) -> Callable[[AnyHandler], AnyHandler]:
    statuses = status if isinstance(status, tuple) else (status,)

    def describe(handler: AnyHandler) -> AnyHandler:
        DESCRIPTIONS[handler] = Description(summary, query, body, answer, statuses, content_type)
        return handler

    return describe


def flag(name: str, about: str) -> Parameter:
    return Parameter(name, about, {"type": "string", "enum": ["true", "false"]})


def number(name: str, about: str, minimum: int, maximum: int) -> Parameter:
    return Parameter(name, about, {"type": "integer", "minimum": minimum, "maximum": maximum})


def words(name: str, about: str, characters_max: int = 255) -> Parameter:
    return Parameter(name, about, {"type": "string", "maxLength": characters_max})
