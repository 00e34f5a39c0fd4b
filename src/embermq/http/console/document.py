"""The HTML document around every page: style, header, footer."""

from __future__ import annotations

from html import escape
from urllib.parse import quote

from embermq.http.server.request import Response

HTML = "text/html; charset=utf-8"

FLAME = (
    '<svg viewBox="0 0 24 24" width="24" height="24" aria-hidden="true">'
    '<path fill="#e8590c" d="M12 1c1 4 7 7 7 13.5A7 7 0 0 1 12 23a7 7 0 0 1-7-8.5C5 11 7 9.5 8 7c.8 1.3 1.5 '
    '2 2 3.5C11.5 8 12.5 5 12 1z"/>'
    '<path fill="#ffc078" d="M12 12c.6 2 3 3 3 5.5a3 3 0 1 1-6 0c0-1.5.8-2.3 1.3-3.3.4.7.7.9 1 1.4.5-1.1.9'
    '-2.2.7-3.6z"/></svg>'
)

# A picture on its own says what it is.
ICON = quote(FLAME.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"'))

# Text on its ground has a contrast of 4.5 or more, light and dark (tests/browser looks).
STYLE = """
:root { color-scheme: light dark; --ink: #2b2320; --soft: #6b5c53; --paper: #fbf7f3; --card: #fff;
        --line: #eadfd5; --ember: #b83b0a; --glow: #e8590c; --out: #3b6ea5;
        --good: #1e6b3a; --good-ground: #e3f4e8; --wait: #7a5200; --wait-ground: #fdf0d0;
        --bad: #a61b1b; --bad-ground: #fde7e4; --past-ground: #f2ebe4 }
@media (prefers-color-scheme: dark) {
  :root { --ink: #f3e9e0; --soft: #b8a89c; --paper: #171310; --card: #211b17; --line: #3b312a;
          --ember: #ff8f57; --glow: #ff7a3c; --out: #8ab8ea;
          --good: #8fdca8; --good-ground: #17351f; --wait: #f2c76b; --wait-ground: #3a2c0c;
          --bad: #ffaaa0; --bad-ground: #45191a; --past-ground: #2d2520 } }
* { box-sizing: border-box }
body { margin: 0; background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif }
main { max-width: 66rem; margin: 0 auto; padding: 2rem 1.25rem 4rem }
h1 { font-size: 1.6rem; margin: 0; letter-spacing: -.02em; display: flex; align-items: center; gap: .5rem }
h1 b { color: var(--ember) }
h2 { font-size: 1.05rem; margin: 0 }
p { margin: .25rem 0 0; color: var(--soft) }
a { color: var(--ember); text-underline-offset: .15em }
:focus-visible { outline: 2px solid var(--glow); outline-offset: 2px; border-radius: .2rem }
code { font: .9em ui-monospace, monospace }
.table { overflow-x: auto; background: var(--card); border: 1px solid var(--line); border-radius: .6rem }
table { border-collapse: collapse; width: 100% }
th, td { padding: .5rem .9rem; text-align: left; border-bottom: 1px solid var(--line); vertical-align: top }
tr:last-child > td, tr:last-child > th[scope=row] { border-bottom: 0 }
"""


def document(title: str, style: str, content: str, head: str = "") -> bytes:
    html = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<link rel="icon" href="data:image/svg+xml,{ICON}">
{head}<style>{STYLE}{style}</style>
</head>
<body>
<main>
{content}
</main>
</body>
</html>
"""
    # A name may hold bytes that were no UTF-8; the page must not fail for it.
    return html.encode("utf-8", "replace")


def page(
    title: str,
    style: str,
    content: str,
    head: str = "",
    status: int = 200,
    headers: tuple[tuple[str, str], ...] = (),
) -> Response:
    return Response(status, document(title, style, content, head), HTML, headers)
