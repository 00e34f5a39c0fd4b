"""Lists: filtered by name, sorted, cut into pages, with the columns asked for.

A list may be long, so it is made in steps between which the loop does other work; a page needs the views of
its own items only, unless the order depends on what the views show.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from embermq.http.openapi.route_docs import flag, number, words
from embermq.http.server.cooperative import Steps
from embermq.http.server.request import Refusal, Request, Response, bad_request, encode
from embermq.http.views.name_filter import name_filter

Item = TypeVar("Item")
View = dict[str, Any]

PAGE_SIZE = 100
PAGE_SIZE_MAX = 500
COLUMNS = (words("columns", "only these, with commas between; `a.b` for one inside another"),)
LIST = (
    number("page", "a page of the list, from 1; all in one where not given", 1, 10**6),
    number("page_size", f"how many on a page, {PAGE_SIZE} where not given", 1, PAGE_SIZE_MAX),
    words("name", "only names with this text in them"),
    flag("use_regex", "`name` is a regular expression"),
    words("sort", "by this column; `a.b` for one inside another"),
    flag("sort_reverse", "the other way round"),
    *COLUMNS,
)
DIGITS = re.compile(r"[0-9]{1,9}")


async def listing(
    request: Request,
    items: Iterable[Item],
    view: Callable[[Item], View],
    name_of: Callable[[Item], str] = lambda item: str(getattr(item, "name", "")),
    sortable: Mapping[str, Callable[[Item], Any]] | None = None,
) -> Response:
    """`sortable` names columns whose values are quick to have: sorting by them needs no views. A list is not
    copied first, and not changed either."""
    steps = Steps(request.context.scheduler)
    everything = items if isinstance(items, list) else list(items)
    page, page_size = page_asked(request)
    chosen = everything
    if request.query.get("name"):
        matches = name_filter(request.query["name"], request.flag("use_regex"))
        chosen = []
        for item in everything:
            if matches(name_of(item)):
                chosen.append(item)
            await steps.pause()
    count = len(chosen)
    page_count = max(1, -(-count // page_size))
    if page > page_count:
        text = f"Page out of range, page: {page} page size: {page_size}, len: {count}"
        raise Refusal(400, "page_out_of_range", text)
    sort = request.query.get("sort", "")
    if sort:
        key = (sortable or {}).get(sort) or (lambda item: sort_key(view(item), sort))
        needed = page * page_size if page else count
        chosen = await steps.sorted(chosen, key, request.flag("sort_reverse"), needed)
    if not page:
        return Response(200, await encode_all(request, steps, chosen, view))
    shown = chosen[(page - 1) * page_size : page * page_size]
    summary = {
        "filtered_count": count,
        "item_count": len(shown),
        "page": page,
        "page_count": page_count,
        "page_size": page_size,
        "total_count": len(everything),
    }
    encoded = await encode_all(request, steps, shown, view)
    return Response(200, encode(summary)[:-1] + b',"items":' + encoded + b"}")


async def encode_all(
    request: Request, steps: Steps, items: list[Item], view: Callable[[Item], View]
) -> bytes:
    """One after the other: thousands of views at once would be much for the garbage collector."""
    columns = columns_asked(request)
    text = bytearray(b"[")
    for item in items:
        shown = view(item)
        text += encode(with_columns(shown, columns) if columns else shown)
        text += b","
        await steps.pause()
    if items:
        text.pop()
    text += b"]"
    return bytes(text)


def single(request: Request, view: View) -> Response:
    columns = columns_asked(request)
    return Response.of(with_columns(view, columns) if columns else view)


def page_asked(request: Request) -> tuple[int, int]:
    """Page number (0: all in one) and size."""
    if "page" not in request.query:
        return 0, PAGE_SIZE
    page, size = request.query["page"], request.query.get("page_size", str(PAGE_SIZE))
    if not DIGITS.fullmatch(page) or not DIGITS.fullmatch(size):
        raise bad_request("Pagination parameters are invalid")
    if int(page) < 1 or not 1 <= int(size) <= PAGE_SIZE_MAX:
        told = int(size) if "page_size" in request.query else "undefined"
        text = f"Invalid pagination parameters: page number {int(page)}, page size {told}"
        raise Refusal(400, "invalid_pagination_parameters", text)
    return int(page), int(size)


def columns_asked(request: Request) -> list[list[str]]:
    names = request.query.get("columns", "")
    return [name.split(".") for name in names.split(",") if name]


def with_columns(view: View, columns: list[list[str]]) -> View:
    """`message_stats.publish` picks a value inside another."""
    result: View = {}
    for path in columns:
        value: Any = view
        for step in path:
            value = value.get(step) if isinstance(value, dict) else None
            if value is None:
                break
        if value is None and not (len(path) == 1 and path[0] in view):
            continue
        into = result
        for step in path[:-1]:
            into = into.setdefault(step, {})
            if not isinstance(into, dict):
                break
        else:
            into[path[-1]] = value
    return result


def sort_key(view: View, name: str) -> tuple[int, float, str]:
    """Numbers before text, what is missing first; so that anything can be compared with anything."""
    value: Any = view
    for step in name.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    if value is None:
        return (0, 0.0, "")
    if isinstance(value, int | float):
        return (1, float(value), "")
    return (2, 0.0, str(value))
