"""Error pages for browsers: not allowed, or not found."""

from __future__ import annotations

from html import escape

from embermq.broker.security.user import User
from embermq.http.console.document import FLAME, page
from embermq.http.server.auth import ALLOWED_TAGS, CHALLENGE, MANAGEMENT
from embermq.http.server.request import Refusal, Request, Response

STYLE = """
main { max-width: 40rem; padding-top: 15vh }
p { margin-top: 1rem }
"""
NOT_FOUND = """<p>There is nothing here. <a href="/">The start page</a> is elsewhere.</p>"""
NOT_LOGGED_IN = """<p>This page needs the name and the password of a user of this broker.</p>
<p><a href="/">Try again</a>. On a new broker they are <code>guest</code> and <code>guest</code>, and
work on the machine of the broker only.</p>"""


def is_for_a_browser(request: Request) -> bool:
    """Programs ask below /api, and want to read why something was refused."""
    return "text/html" in request.headers.get("accept", "") and not request.path.startswith("/api/")


def refusal_page(request: Request, refusal: Refusal) -> Response:
    headers = refusal.headers
    if request.login is not None and refusal.status == 401:
        told = not_allowed(request.login, str(refusal.reason), request.names.get("vhost"))
        headers = CHALLENGE  # so that the browser asks for another name
    elif refusal.status == 401:
        told = NOT_LOGGED_IN
    elif refusal.status == 404:
        told = NOT_FOUND if not request.names.get("name") else no_queue(request.names)
    else:
        told = f"<p>{escape(str(refusal.reason))}</p>"
    content = f"<h1>{FLAME}<span><b>Ember</b>MQ</span></h1>\n{told}"
    return page("EmberMQ", STYLE, content, status=refusal.status, headers=headers)


def no_queue(names: dict[str, str]) -> str:
    name, vhost = escape(names["name"]), escape(names.get("vhost", "/"))
    return f"""<p>There is no queue <code>{name}</code> in the virtual host <code>{vhost}</code>.
Perhaps it was deleted a moment ago.</p>
<p><a href="/">All queues</a></p>"""


def not_allowed(user: User, reason: str, vhost: str | None) -> str:
    name = user.name
    needed, command = "with the tag <code>management</code>", f"embermq user tags {name} management"
    if vhost is not None and user.tags & ALLOWED_TAGS[MANAGEMENT]:
        needed = f"with permissions in the virtual host <code>{escape(vhost)}</code>"
        command = f"embermq permission grant {name} --vhost {vhost}"
    return f"""<p>You are <strong>{escape(name)}</strong>, who may not see this page: {escape(reason)}.</p>
<p>It opens for users {needed}. An administrator can give it:
<code>{escape(command)}</code>.</p>
<p><a href="/">Log in as somebody else</a>.</p>"""
