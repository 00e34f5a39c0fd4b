"""Signing in and out of the console: `/api/session`."""

from __future__ import annotations

import base64
from dataclasses import replace

from embermq.broker.security.user import User
from embermq.http.openapi import schemas
from embermq.http.openapi.route_docs import describes
from embermq.http.server.auth import MANAGEMENT, HTTPAuthenticator, require_tag
from embermq.http.server.request import Request, Response, text
from embermq.http.server.session import cookie, token_in

SESSION = schemas.every(
    name=schemas.TEXT,
    tags=schemas.list_of(schemas.TEXT),
    permissions=schemas.list_of(schemas.OBJECT),
)


@describes(
    "Sign in: the answer has a cookie that stands for the user. Changes that come with the cookie also need "
    "the header `X-EmberMQ-Console`.",
    body=schemas.every(username=schemas.TEXT, password=schemas.TEXT),
    answer=SESSION,
)
async def sign_in(request: Request) -> Response:
    """Throttled and audited as every login is."""
    body = request.json()
    pair = f"{text(body, 'username')}:{text(body, 'password')}".encode("utf-8", "surrogateescape")
    headers = {"authorization": f"Basic {base64.b64encode(pair).decode()}"}
    sessions = request.context.console_sessions
    user = await HTTPAuthenticator(request.context.broker, sessions).admit(replace(request, headers=headers))
    require_tag(user, MANAGEMENT)
    given = cookie(sessions.create(user), is_tls=request.is_tls)
    return Response.of(session_view(user), headers=(given,))


@describes("Sign out.", status=204)
def sign_out(request: Request) -> Response:
    request.context.console_sessions.end(token_in(request.headers.get("cookie", "")))
    return Response(204, headers=(cookie("", is_tls=request.is_tls),))


@describes("Who is signed in, with tags and permissions.", answer=SESSION)
def session(request: Request) -> Response:
    return Response.of(session_view(request.user))


def session_view(user: User) -> dict[str, object]:
    permissions = [{"vhost": vhost, **known.patterns} for vhost, known in sorted(user.permissions.items())]
    return {"name": user.name, "tags": sorted(user.tags), "permissions": permissions}
