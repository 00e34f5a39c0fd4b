"""The end of the broker's log."""

from __future__ import annotations

import logging

from embermq.http.log_lines import LINES_MAX
from embermq.http.openapi import schemas
from embermq.http.openapi.route_docs import Parameter, describes, number
from embermq.http.server.request import Request, Response, bad_request, integer

LEVELS = ("debug", "info", "warning", "error", "critical")
COUNT = 500
AFTER_MAX = 2**53
LINE = schemas.every(
    number=schemas.COUNT,
    time_ms=schemas.COUNT,
    level=schemas.TEXT,
    logger=schemas.TEXT,
    message=schemas.TEXT,
    about=schemas.OBJECT,
)
QUERY = (
    number("after", "only lines with a higher number", 0, AFTER_MAX),
    number("count", f"so many at most, {COUNT} where not given", 1, LINES_MAX),
    Parameter("level", "this level and graver ones", {"type": "string", "enum": list(LEVELS)}),
)


@describes(
    f"The last lines of the broker's log; it keeps {LINES_MAX}.",
    query=QUERY,
    answer=schemas.every(lines=schemas.list_of(LINE), last=schemas.COUNT),
)
def log_lines(request: Request) -> Response:
    query = {"after": "0", "count": str(COUNT), "level": LEVELS[0], **request.query}
    after, count = integer(dict(query), "after", 0, AFTER_MAX), integer(dict(query), "count", 1, LINES_MAX)
    if query["level"] not in LEVELS:
        raise bad_request(f"level is one of {', '.join(LEVELS)}")
    kept = request.context.log_lines
    level = logging.getLevelNamesMapping()[query["level"].upper()]
    return Response.of(
        {"lines": [line.view() for line in kept.after(after, level, count)], "last": kept.count}
    )
