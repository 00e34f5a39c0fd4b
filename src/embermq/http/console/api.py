"""The API as a page: the OpenAPI document in HTML, no scripts, nothing from outside."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import lru_cache
from html import escape
from typing import Any

from embermq.http.console.document import FLAME, page
from embermq.http.openapi import schemas
from embermq.http.openapi.route_docs import describes
from embermq.http.server.request import Request, Response

STYLE = """
section { margin: 2rem 0 0; scroll-margin-top: 1rem } h2 { margin: 0 0 .75rem }
h1 + p { margin-top: .5rem }
details { background: var(--card); border: 1px solid var(--line); border-radius: .6rem; margin: .4rem 0 }
summary { padding: .5rem .9rem; cursor: pointer; overflow-wrap: anywhere }
summary code { font-weight: 600 }
summary b { display: inline-block; min-width: 4.5rem; color: var(--ember); font-size: .85rem }
details > div { padding: 0 .9rem .9rem }
pre { overflow-x: auto; font: .85em/1.4 ui-monospace, monospace }
nav a { margin-right: .8rem }
"""


@describes("This API, as an OpenAPI document.", answer=schemas.OBJECT)
def openapi(request: Request) -> Response:
    return openapi_of(request.context.openapi)


@lru_cache(1)  # it is long, and the same for all users
def openapi_of(document: Callable[[], dict[str, Any]]) -> Response:
    return Response.of(document())


@describes("This API, as a page for people.", answer=schemas.TEXT, content_type="text/html")
def api_page(request: Request) -> Response:
    return page_of(request.context.openapi)


@lru_cache(1)
def page_of(document: Callable[[], dict[str, Any]]) -> Response:
    described = document()
    groups: dict[str, list[str]] = {}
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            groups.setdefault(operation["tags"][0], []).append(operation_html(method, path, operation))
    names = sorted(groups)
    links = " ".join(f'<a href="#{escape(name)}">{escape(name)}</a>' for name in names)
    sections = "".join(
        f'<section id="{escape(name)}"><h2>{escape(name)}</h2>{"".join(groups[name])}</section>'
        for name in names
    )
    content = f"""<h1>{FLAME}<span><b>Ember</b>MQ HTTP API</span></h1>
<p>{escape(described["info"]["description"])} Version {escape(described["info"]["version"])}.
The same for programs: <a href="/api/openapi.json">OpenAPI</a>. <a href="/">The broker at a glance</a>.</p>
<nav aria-label="Groups"><p>{links}</p></nav>
{sections}"""
    return page("EmberMQ HTTP API", STYLE, content)


def operation_html(method: str, path: str, operation: dict[str, Any]) -> str:
    who = ", ".join(operation["x-opens-for"]) or "everybody"
    parts = [f"<p>For: {escape(who)}</p>"]
    if operation["parameters"]:
        rows = "".join(
            f"<tr><td><code>{escape(parameter['name'])}</code></td><td>{escape(parameter['in'])}</td>"
            f"<td>{sentence(parameter['description'])}</td></tr>"
            for parameter in operation["parameters"]
        )
        parts.append(f'<div class="table"><table><tbody>{rows}</tbody></table></div>')
    if "requestBody" in operation:
        content = operation["requestBody"]["content"]
        parts.append(f"<p>Body</p>{shown(next(iter(content.values()))['schema'])}")
    for status, response in operation["responses"].items():
        if status < "300" and "content" in response:
            parts.append(f"<p>Answer</p>{shown(next(iter(response['content'].values()))['schema'])}")
            break
    return (
        f"<details><summary><b>{method.upper()}</b> <code>{escape(path)}</code> "
        f"{sentence(operation['summary'])}</summary><div>{''.join(parts)}</div></details>"
    )


def sentence(text: str) -> str:
    """As in the documentation, what stands in backquotes is code."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", escape(text))


def shown(schema: Any) -> str:
    return f"<pre>{escape(json.dumps(schema, indent=1))}</pre>"
