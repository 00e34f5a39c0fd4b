"""The OpenAPI document: the table of routes and the descriptions of their handlers."""

from __future__ import annotations

import functools
import re
from typing import Any

from embermq.http.openapi import schemas
from embermq.http.openapi.route_docs import DESCRIPTIONS, Description, Parameter
from embermq.http.server.auth import ALLOWED_TAGS
from embermq.http.server.request import JSON
from embermq.http.server.router import OPEN_TO_ALL, Route

IN_PATH = re.compile(r"{(\w+)}")
SAFE_METHODS = ("GET",)
ABOUT_NAMES = {
    "vhost": "a virtual host, percent-encoded: `/` is `%2F`",
    "name": "a name, percent-encoded",
    "kind": "`q` for a queue, `e` for an exchange",
    "key": "the `properties_key` of a binding",
    "unit": "days, weeks, months or years",
}
ERRORS = {
    400: "the request makes no sense, or cannot be granted as things are",
    401: "no login, or the user's tags or permissions do not allow it",
    403: "a page of another site asked for this",
    404: "there is no such thing",
    503: "not now: publishers must wait, or a check has failed",
}

Document = dict[str, Any]


@functools.cache
def document(routes: tuple[Route, ...], version: str) -> Document:
    """Made once, when it is first asked for."""
    paths: dict[str, Document] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "EmberMQ",
            "version": version,
            "description": "RabbitMQ's management API, and what it lacks.",
        },
        "components": {
            "securitySchemes": {"login": {"type": "http", "scheme": "basic"}},
            "schemas": {"Error": schemas.ERROR},
        },
        "security": [{"login": []}],
        "paths": paths,
    }


def operation(route: Route) -> Document:
    described = description_of(route)
    found: Document = {
        "operationId": operation_id(route),
        "summary": described.summary,
        "tags": [group_of(route.path)],
        "x-opens-for": sorted(ALLOWED_TAGS[route.level]) if route.level != OPEN_TO_ALL else [],
        "parameters": [*path_parameters(route.path), *map(query_parameter, described.query)],
        "responses": responses(route, described),
    }
    if route.level == OPEN_TO_ALL:
        found["security"] = []
    if described.body is not None:
        required = bool(described.body.get("required"))
        found["requestBody"] = {"required": required, "content": {JSON: {"schema": described.body}}}
    return found


def description_of(route: Route) -> Description:
    """A test wants all handlers described; should one not be, the broker starts all the same."""
    name = route.handler.__name__.replace("_", " ").capitalize()
    return DESCRIPTIONS.get(route.handler) or Description(f"{name}.", answer=schemas.ANYTHING)


def operation_id(route: Route) -> str:
    words = [step.strip("{}") for step in route.path.split("/") if step and step != "api"]
    pages = ["api-page" if route.path.startswith("/api") else "start-page"]
    if route.path.startswith("/queues"):  # the same things as in the API, for people
        words.append("page")
    return "-".join([route.method.lower(), *(words or pages)])


def group_of(path: str) -> str:
    steps = path.strip("/").split("/")
    return steps[1] if len(steps) > 1 and steps[0] == "api" else "pages"


def path_parameters(path: str) -> list[Document]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": ABOUT_NAMES.get(name, name),
            "schema": {"type": "string", "minLength": 1},
        }
        for name in IN_PATH.findall(path)
    ]


def query_parameter(parameter: Parameter) -> Document:
    return {
        "name": parameter.name,
        "in": "query",
        "required": False,
        "description": parameter.about,
        "schema": parameter.schema,
    }


def answer_schema(described: Description) -> Any:
    columns = any(parameter.name == "columns" for parameter in described.query)
    return schemas.partial(described.answer) if columns else described.answer


def responses(route: Route, described: Description) -> Document:
    found: Document = {}
    for status in described.statuses:
        answer: Document = {"description": "done" if status >= 201 else "the answer"}
        if described.answer is not None and status != 204:
            schema = answer_schema(described)
            answer["content"] = {described.content_type: {"schema": schema}}
        found[str(status)] = answer
    for status, about in ERRORS.items():
        if status == 403 and route.method in SAFE_METHODS:
            continue
        found.setdefault(
            str(status),
            {
                "description": about,
                "content": {JSON: {"schema": {"$ref": "#/components/schemas/Error"}}},
            },
        )
    if described.answer is schemas.STATUS:
        found["503"]["content"] = {JSON: {"schema": schemas.STATUS}}
    return found
