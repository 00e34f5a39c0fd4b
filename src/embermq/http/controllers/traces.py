"""Traces and their files, as RabbitMQ's tracing plugin has them."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from embermq.errors import AMQPError
from embermq.http.controllers.exchanges import vhost_of
from embermq.http.openapi import schemas
from embermq.http.openapi.route_docs import describes
from embermq.http.server.request import Request, Response, bad_request, integer, not_found, require_keys, text
from embermq.http.trace_writer import JSON, NAME, TEXT, TRACES_MAX, Trace, Traces, Wanted

TRACE_BODY = schemas.fields(
    "format pattern",
    format={"type": "string", "enum": [TEXT, JSON]},
    pattern=schemas.TEXT,
    max_payload_bytes=schemas.COUNT,
)
ROUTING_KEY_BYTES_MAX = 255


def traces_of(request: Request) -> Traces:
    if request.names.get("node", request.context.node) != request.context.node:
        raise not_found()
    return request.context.traces


def trace_named(request: Request) -> Trace:
    vhost, name = vhost_of(request, to_see=True), request.names["name"]
    for trace in traces_of(request).of(vhost):
        if trace.wanted.name == name:
            return trace
    raise not_found()


@describes("Traces that run.", answer=schemas.list_of(schemas.OBJECT))
def all_traces(request: Request) -> Response:
    return Response.of([trace.view() for trace in traces_of(request).all()])


@describes("Traces that run in a virtual host.", answer=schemas.list_of(schemas.OBJECT))
def traces_in(request: Request) -> Response:
    return Response.of([trace.view() for trace in traces_of(request).of(vhost_of(request, to_see=True))])


@describes("A trace.", answer=schemas.OBJECT)
def one_trace(request: Request) -> Response:
    return Response.of(trace_named(request).view())


@describes("Write what happens to messages into a file.", body=TRACE_BODY, status=201)
def put_trace(request: Request) -> Response:
    vhost, body, name = vhost_of(request, to_see=True), request.json(), request.names["name"]
    require_keys(body, "format", "pattern")
    wanted_format, pattern = text(body, "format"), text(body, "pattern")
    if wanted_format not in (TEXT, JSON):
        raise bad_request("format not json or text")
    if not NAME.fullmatch(name):
        raise bad_request("the name of a trace has letters, digits, - and _, for it is that of a file")
    if len(pattern.encode("utf-8", "surrogatepass")) > ROUTING_KEY_BYTES_MAX:
        raise bad_request("the pattern is too long")
    limit = integer(body, "max_payload_bytes", 0, 2**31) if "max_payload_bytes" in body else None
    traces = traces_of(request)
    if any(trace.wanted.name == name for trace in traces.all()):
        raise bad_request(f"a trace with the name {name} runs")
    if len(traces.all()) >= TRACES_MAX:
        raise bad_request(f"there are {TRACES_MAX} traces")
    try:
        traces.start(vhost, Wanted(name, wanted_format, pattern, limit))
    except (OSError, AMQPError) as error:
        raise bad_request(f"cannot trace: {error}") from None
    return Response(201)


@describes("End a trace. Its file stays.", status=204)
async def delete_trace(request: Request) -> Response:
    await traces_of(request).stop(trace_named(request))
    return Response(204)


@describes("Files that traces have written.", answer=schemas.list_of(schemas.OBJECT))
def trace_files(request: Request) -> Response:
    return Response.of(traces_of(request).files())


def path_asked(request: Request) -> str:
    path = traces_of(request).file(request.names["name"])
    if path is None:
        raise not_found()
    return path


@describes("What a trace has written.", answer=schemas.TEXT, content_type="text/plain")
async def one_trace_file(request: Request) -> Response:
    data = await asyncio.to_thread(Path(path_asked(request)).read_bytes)
    return Response(200, data, "text/plain; charset=utf-8")


@describes("Delete the file of a trace.", status=204)
def delete_trace_file(request: Request) -> Response:
    os.unlink(path_asked(request))
    return Response(204)
