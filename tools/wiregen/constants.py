"""The source of wire/constants.py."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tools.wiregen.source import BANNER, shout


def constants(definition: dict[str, Any]) -> Iterator[str]:
    yield BANNER
    yield '"""AMQP\'s numbers: frames, reply codes, classes."""\n'
    protocol = definition["protocol"]
    for name in ("major", "minor", "revision"):
        yield f"PROTOCOL_{shout(name)} = {protocol[name]}"
    yield f"PORT = {protocol['port']}\n"
    for name, value in definition["constants"].items():
        yield f"{shout(name)} = {value}"
    yield "\n# Reply codes that close the channel."
    for name, value in definition["soft-errors"].items():
        yield f"{shout(name)} = {value}"
    yield "\n# Reply codes that close the connection."
    for name, value in definition["hard-errors"].items():
        yield f"{shout(name)} = {value}"
    for group in ("soft-errors", "hard-errors"):
        yield f"\n{shout(group)} = frozenset("
        yield "    ("
        for name in definition[group]:
            yield f"        {shout(name)},"
        yield "    )"
        yield ")"
    yield ""
    for klass in definition["class"]:
        yield f"CLASS_{shout(klass['name'])} = {klass['id']}"
