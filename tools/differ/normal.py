"""Transcripts without what may differ between two runs: generated names and times."""

from __future__ import annotations

import re
from typing import Any

GENERATED = re.compile(r"amq\.(?:gen|ctag)-[\w-]+|amq\.rabbitmq\.reply-to\.[\w.=+/-]+")
INTEGER_TYPES = re.compile(
    r"(of type '|>>,|invalid type '|got |unacceptable_type,)(?:byte|short|long|unsigned(?:byte|short|int))\b"
)
# Programs stamp their own messages with times long before this one.
BROKER_TIME_MIN = 1_700_000_000


def is_newer(name: str) -> bool:
    """A header that RabbitMQ has only since 4.0, or on quorum queues only."""
    return name.startswith("x-last-death-") or name in ("x-delivery-count", "x-acquired-count")


class Anonymous:
    """Generated names become numbers in the order of their appearance, the virtual host becomes "/"."""

    def __init__(self, vhost: str = "/") -> None:
        self.names: dict[str, str] = {}
        self.vhost = f"vhost '{vhost}'"

    def __call__(self, value: Any) -> Any:
        if isinstance(value, str):
            # Erlang breaks long terms into lines, and tells types of integers that nobody but it tells apart.
            # The HTTP API writes some texts for a page and some not.
            value = re.sub(r"\n\s+", "", value).replace("&lt;", "<").replace("&gt;", ">")
            value = INTEGER_TYPES.sub(r"\1signedint", value)
            value = re.sub(r"(of type '|invalid type '|got |unacceptable_type,)float", r"\1double", value)
            return GENERATED.sub(self.number, value.replace(self.vhost, "vhost '/'"))
        if isinstance(value, list):
            return [self(item) for item in value]
        if isinstance(value, dict):
            if value.get("$T", 0) > BROKER_TIME_MIN:
                return {"$T": "now"}
            kept = {self(str(key)): self(item) for key, item in value.items() if not is_newer(str(key))}
            if kept.get("headers") == {} != value["headers"]:
                del kept["headers"]
            return kept
        return value

    def number(self, match: re.Match[str]) -> str:
        return self.names.setdefault(match[0], f"generated {len(self.names) + 1}")
