"""Whatever is sent, the API has an answer of its own: never a fault of ours."""

from __future__ import annotations

import json
import re
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from embermq.http.server.routes import TABLE
from tests.support.http_api import Desk, in_path

NAMES = st.sampled_from(["/", "q", "e", "amq.topic", "amq.default", "", "guest", "~", "nowhere", "\x00", "ü"])
KEYS = st.sampled_from(
    [
        "name",
        "vhost",
        "vhosts",
        "users",
        "queues",
        "exchanges",
        "bindings",
        "permissions",
        "tags",
        "password",
        "password_hash",
        "durable",
        "type",
        "arguments",
        "routing_key",
        "payload",
        "payload_encoding",
        "properties",
        "headers",
        "ackmode",
        "count",
        "encoding",
        "truncate",
        "action",
        "configure",
        "write",
        "read",
        "source",
        "destination",
        "destination_type",
        "description",
        "metadata",
        "hashing_algorithm",
        "auto_delete",
        "internal",
        "delivery_mode",
        "priority",
        "timestamp",
        "expiration",
        "alternate-exchange",
        "x-message-ttl",
    ]
)
WORDS = st.sampled_from(
    ["", "/", "q", "true", "string", "base64", "auto", "ack_requeue_true", "topic", "direct", "(", "\ud800"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)
QUERIES = st.dictionaries(
    st.sampled_from(
        ["page", "page_size", "name", "use_regex", "sort", "sort_reverse", "columns", "if-unused"]
    ),
    st.sampled_from(
        ["", "1", "true", "x", "-1", "(", "a.b", "messages", "arguments", "message_stats.publish"]
    ),
    max_size=4,
)


@st.composite
def requests(draw: st.DrawFn) -> tuple[str, str, Any]:
    method, path, _, _ = draw(st.sampled_from(TABLE))
    path = re.sub(r"{\w+}", lambda match: in_path(draw(NAMES)), path)
    query = "&".join(f"{key}={in_path(value)}" for key, value in draw(QUERIES).items())
    return method, f"{path}?{query}" if query else path, draw(VALUES)


@settings(max_examples=80)
@given(st.lists(requests(), min_size=1, max_size=12))
def test_every_answer_is_meant(conversation: list[tuple[str, str, Any]]) -> None:
    with Desk() as desk:
        desk.put("/api/queues/%2F/q")
        desk.put("/api/exchanges/%2F/e", {"type": "topic"})
        for method, path, body in conversation:
            reply = desk.ask(method, path, body, login="administrator:secret")
            assert reply.status in (200, 201, 202, 204, 400, 401, 404, 405, 503), (method, path, body)
            if reply.body and reply.content_type == "application/json":
                # NaN and Infinity are Python's, not JSON's.
                json.loads(reply.body, parse_constant=no_json)
        if "administrator" in desk.broker.users:
            assert desk.ask("GET", "/api/definitions", login="administrator:secret").status in (200, 401)


def no_json(name: str) -> None:
    raise AssertionError(f"{name} in an answer")
