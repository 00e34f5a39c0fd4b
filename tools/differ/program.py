"""What a program looks like, and the names that programs talk about.

A program is a list of steps, a step a JSON object:

    {"do": "queue.declare", "on": [0, 1], "with": {"queue": "q1", "durable": true}}
    {"do": "basic.publish", "on": [0, 1], "with": {"routing-key": "q1"}, "properties": {...}, "body": "x"}
    {"do": "basic.ack", "on": [0, 1], "with": {"delivery-tag": "oldest"}}     also "newest", "middle"
    {"do": "frames", "on": [0, 1], "frames": [[2, "003c..."]]}                any frames: kind, hex
    {"do": "http", "ask": "PUT", "path": "/api/queues/%2F/q1", "body": {...}, "as": "monitor"}
    {"do": "drop", "on": [1]}                                                 the socket closes without a word
    {"do": "sleep", "ms": 200}
    {"do": "restart"}                                                         the broker ends and starts again

`on` is connection and channel. Both are opened when a step first uses them, and again after they were closed;
`"raw": true` forbids that for a channel. `"quiet_ms": 400` looks at what a step caused when nothing has
happened for that long: whatever expires soon is gone by then.
"""

from __future__ import annotations

import json
from typing import Any

Step = dict[str, Any]
Program = list[Step]

QUEUES = ("q1", "q2", "q3", "q4")
EXCHANGES = ("e1", "e2", "e3", "e4")


def step(do: str, on: tuple[int, int] = (0, 1), /, **fields: Any) -> Step:
    """`step("queue.declare", queue="q1")`: underscores of names are hyphens, as in the specification."""
    return {
        "do": do,
        "on": list(on),
        "with": {name.replace("_", "-"): value for name, value in fields.items()},
    }


def written(program: Program) -> str:
    """One step per line."""
    return "[\n" + ",\n".join(" " + json.dumps(one) for one in program) + "\n]"
