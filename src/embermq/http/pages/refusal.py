"""What a browser shows instead of a page: that somebody may not see it, or that there is none."""

from __future__ import annotations

from html import escape

from embermq.http.login import CHALLENGE
from embermq.http.pages.document import FLAME, page
from embermq.http.request import Refusal, Request, Response

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
        told = not_allowed(request.login.name, str(refusal.reason))
        headers = CHALLENGE  # so that the browser asks for another name
    elif refusal.status == 401:
        told = NOT_LOGGED_IN
    elif refusal.status == 404:
        told = NOT_FOUND
    else:
        told = f"<p>{escape(str(refusal.reason))}</p>"
    content = f"<h1>{FLAME}<span><b>Ember</b>MQ</span></h1>\n{told}"
    return page("EmberMQ", STYLE, content, status=refusal.status, headers=headers)


def not_allowed(name: str, reason: str) -> str:
    command = f"embermq user tags {name} management"
    return f"""<p>You are <strong>{escape(name)}</strong>, who may not see this page: {escape(reason)}.</p>
<p>It opens for users with the tag <code>management</code>. An administrator can give it:
<code>{escape(command)}</code>.</p>
<p><a href="/">Log in as somebody else</a>.</p>"""
