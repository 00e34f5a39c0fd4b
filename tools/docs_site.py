"""MkDocs hooks: what GitHub shows as it is and a site does not.

Links out of docs/ (to sources, tests, the changelog) become plain text, because the site has only the pages;
and the words behind a fence's language (`python run`, for the tests) are taken away.
"""

from __future__ import annotations

import re
from typing import Any

OUTSIDE = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])+)\]\((?:\.\./)+(?!docs/)[^)]*\)")
FENCE = re.compile(r"^(\s*```)(\w+) [^\n]*$", re.MULTILINE)


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    inside = page.file.src_uri.count("/")  # folders below docs/

    def plain(link: re.Match[str]) -> str:
        climbs = link[0].rpartition("](")[2].count("../")
        return link[1] if climbs > inside else link[0]

    return FENCE.sub(r"\1\2", OUTSIDE.sub(plain, markdown))
