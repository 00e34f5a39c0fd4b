"""Frames that no client should send, or not then."""

from __future__ import annotations

import struct

from tools.differ.codec import encode_header, encode_method
from tools.differ.link import BODY, HEADER, METHOD

Frames = list[list[int | str]]


def method(name: str, **fields: object) -> list[int | str]:
    payload = encode_method(name, {key.replace("_", "-"): value for key, value in fields.items()})
    return [METHOD, payload.hex()]


def header(size: int, class_id: int = 60, weight: int = 0) -> list[int | str]:
    return [HEADER, (struct.pack(">HH", class_id, weight) + encode_header(size, {})[4:]).hex()]


PUBLISH = method("basic.publish", routing_key="q1")
BODY_3: list[int | str] = [BODY, b"abc".hex()]
FRAMES: list[Frames] = [
    [header(3)],
    [BODY_3],
    [PUBLISH, BODY_3],
    [PUBLISH, method("basic.get", queue="q1")],
    [PUBLISH, PUBLISH],
    [PUBLISH, header(3), header(3)],
    [PUBLISH, header(3), PUBLISH],
    [PUBLISH, header(3), method("queue.declare", queue="q1")],
    [PUBLISH, header(0)],
    [PUBLISH, header(3), [BODY, ""], BODY_3],
    [PUBLISH, header(6), BODY_3, BODY_3],
    [PUBLISH, header(3, class_id=50), BODY_3],
    [PUBLISH, header(3, weight=1), BODY_3],
    [PUBLISH, [HEADER, "003c0000"]],
    [[METHOD, ""]],
    [[METHOD, "003c"]],
    [[METHOD, "003c00ff"]],
    [[METHOD, "00ff0001"]],
    [[METHOD, "00000000"]],
    [[4, "00"]],
    [[0, ""]],
    [method("queue.declare-ok", queue="q1")],
    [method("basic.qos-ok")],
    [method("channel.open-ok")],
    [method("channel.flow-ok", active=True)],
    [method("basic.cancel-ok", consumer_tag="c1")],
    [method("connection.tune-ok")],
    [method("connection.open", virtual_host="/")],
    [[METHOD, (encode_method("queue.purge", {})[:6] + b"\x02\xff\xfe\x00").hex()]],
]
