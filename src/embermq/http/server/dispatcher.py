"""The dispatcher: finds the route, authenticates, handles, and waits until what was done is safe."""

from __future__ import annotations

import asyncio
import inspect
from functools import partial

from embermq.errors import AccessRefused, AMQPError, NotFound
from embermq.http.console.refusal import is_for_a_browser, refusal_page
from embermq.http.openapi.document import document
from embermq.http.server.auth import HTTPAuthenticator, require_tag
from embermq.http.server.context import Context
from embermq.http.server.request import (
    Handler,
    Incoming,
    Refusal,
    Request,
    Response,
    bad_request,
    not_authorised,
)
from embermq.http.server.router import OPEN_TO_ALL, Routes

UNAUTHORISED = 401


class Api:
    def __init__(self, context: Context, routes: Routes) -> None:
        self.context = context
        self.routes = routes
        self.authenticator = HTTPAuthenticator(context.broker, context.console_sessions)
        context.openapi = partial(document, tuple(routes.all), context.version)

    async def answer(self, incoming: Incoming) -> Response:
        request: Request | None = None
        try:
            request = Request.parse(self.context, incoming)
            response = await self.handle(request, incoming)
        except (Refusal, AMQPError) as error:
            # No other name for it here: the frame, which its traceback holds, would hold it in turn.
            response = self.refused(request, error)
        await self.until_safe(response, changes=incoming.method not in ("GET", "HEAD", "OPTIONS"))
        return response

    def refused(self, request: Request | None, error: Refusal | AMQPError) -> Response:
        refusal = error if isinstance(error, Refusal) else refusal_of(error)
        if request is None:
            return refusal.response
        if request.login is not None and refusal.status == UNAUTHORISED:
            self.note_refusal(request, error)
        return refusal_page(request, refusal) if is_for_a_browser(request) else refusal.response

    def note_refusal(self, request: Request, error: Exception) -> None:
        """A user who is logged in asked for more than the tags and permissions allow."""
        events = self.context.broker.events
        with events.acting(request.user.name):
            events.emit("access.refused", access_refused, request, error)

    async def handle(self, request: Request, incoming: Incoming) -> Response:
        """The body last: it is read when its user and its route are known."""
        node, request.names = self.routes.find(request.segments)
        allowed = sorted({*node.methods, *(["HEAD"] if "GET" in node.methods else []), "OPTIONS"})
        if request.method == "OPTIONS":
            return Response(200, headers=(("allow", ", ".join(allowed)),))
        route = node.methods.get("GET" if request.method == "HEAD" else request.method)
        if route is None:
            return Response(405, headers=(("allow", ", ".join(allowed)),))
        require_same_site(request)
        if route.level == OPEN_TO_ALL:
            request.body = await incoming.read_body(route.body_bytes_max)
            return await handled(route.handler, request)
        request.login = incoming.user or await self.authenticator.admit(request)
        require_tag(request.login, route.level)
        incoming.on_login()
        request.body = await incoming.read_body(route.body_bytes_max)
        await self.context.scheduler.passage()
        return await self.context.broker.events.acting_throughout(
            request.user.name, handled(route.handler, request)
        )

    async def until_safe(self, response: Response, changes: bool) -> None:
        """Changes of durable things, and messages published, are on disk before the response is sent."""
        broker = self.context.broker
        loop = asyncio.get_running_loop()
        safe = loop.create_future()

        def done() -> None:
            if not safe.done():
                safe.set_result(None)

        if response.after_messages:
            broker.turn.after_safe(done)
            await safe
        elif changes:
            # Without asking whether anything changed: an AMQP client's flush may be carrying it just now.
            broker.definitions.when_safe(done)
            await safe


async def handled(handler: Handler, request: Request) -> Response:
    result = handler(request)
    response: Response = await result if inspect.isawaitable(result) else result
    return response


def access_refused(request: Request, error: Exception) -> dict[str, object]:
    asked = f"{request.method} {request.path}"
    return {"peer_host": request.peer_address, "request": asked, "error": str(error)}


def require_same_site(request: Request) -> None:
    """A browser that knows the password must not change anything because some other page tells it to."""
    if request.method in ("GET", "HEAD"):
        return
    origin, host = request.headers.get("origin"), request.headers.get("host", "")
    if request.headers.get("sec-fetch-site") in ("cross-site", "same-site") or (
        origin is not None and origin.partition("://")[2].lower() != host.lower()
    ):
        raise Refusal(403, "forbidden", "a page of another site asked for this")


def refusal_of(error: AMQPError) -> Refusal:
    """What AMQP would close a channel for, as RabbitMQ's API says it."""
    if isinstance(error, AccessRefused):
        return not_authorised("Access refused.")
    if isinstance(error, NotFound):
        return Refusal(404, "not_found", error.detail)
    return bad_request(error.detail)
