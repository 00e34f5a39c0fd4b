"""Settings as a TOML file: what `embermq config show` and `embermq config example` print.

A setting at its default is a comment, so that a line that counts stands out; secrets are masked.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path

from embermq.config.rule import default_of, rule_of, settings_in
from embermq.config.settings import SECTIONS, TABLES, Config

MASK = "********"
COMMENT_COLUMNS = 100
# One of each kind of table, for the example.
SAMPLES = """\
# What must be there: made at start where it is missing, and durable. What exists stays as it is.
#
# [[vhosts]]
# name = "shop"
# max_queues = 1000
#
# [[users]]
# name = "orders"
# password_file = "/run/secrets/orders"
# tags = ["monitoring"]
#
# [[permissions]]
# user = "orders"
# vhost = "shop"
# configure = "^orders\\\\."
# write = "^orders\\\\."
# read = "^orders\\\\."
#
# [[topic_permissions]]
# user = "orders"
# vhost = "shop"
# exchange = "events"
# write = "^{username}\\\\."
#
# [[exchanges]]
# vhost = "shop"
# name = "events"
# type = "topic"
#
# [templates.jobs]
# x-message-ttl = 60000
#
# [[queues]]
# vhost = "shop"
# name = "orders.new"
# template = "jobs"
#
# [[bindings]]
# vhost = "shop"
# source = "events"
# destination = "orders.new"
# routing_key = "orders.#"
"""


def shown(config: Config) -> str:
    """The settings that hold, as a file that would bring them about (but for the secrets)."""
    lines = list(settings_lines(config))
    for name in SECTIONS:
        lines += ["", f"[{name}]", *settings_lines(getattr(config, name))]
    for name in TABLES:
        for thing in getattr(config, name):
            lines += [
                "",
                f"[[{name}]]",
                *(line for line in settings_lines(thing) if not line.startswith("#")),
            ]
    for name, arguments in config.templates.items():
        lines += ["", f"[templates.{key_text(name)}]"]
        lines += [f"{key_text(key)} = {value_text(value)}" for key, value in arguments.items()]
    return "\n".join(lines) + "\n"


def plain(config: Config) -> dict[str, object]:
    """The same for programs: every setting that holds, those at their defaults as well."""
    values = settings_values(config)
    values |= {name: settings_values(getattr(config, name)) for name in SECTIONS}
    values |= {name: [settings_values(thing) for thing in getattr(config, name)] for name in TABLES}
    return values | {"templates": {name: dict(arguments) for name, arguments in config.templates.items()}}


def settings_values(settings: object) -> dict[str, object]:
    values: dict[str, object] = {}
    for name, field in settings_in(type(settings)).items():
        value, rule = getattr(settings, name), rule_of(field)
        assert rule is not None
        if rule.secret and value:
            value = MASK
        values[name] = str(value) if isinstance(value, Path) else value
    return values


def settings_lines(settings: object) -> Iterator[str]:
    for name, field in settings_in(type(settings)).items():
        value, rule = getattr(settings, name), rule_of(field)
        assert rule is not None
        mark = "# " if value == default_of(field) else ""
        yield f"{mark}{name} = {value_text(MASK if rule.secret and value else value)}"


def example() -> str:
    """Every setting with its meaning, all of them comments."""
    lines = ["# EmberMQ's settings. What is commented out shows the default.", ""]
    lines += described(Config())
    for name in SECTIONS:
        lines += [f"[{name}]", "", *described(getattr(Config(), name))]
    return "\n".join(lines) + "\n" + SAMPLES


def described(settings: object) -> Iterator[str]:
    for name, field in settings_in(type(settings)).items():
        rule = rule_of(field)
        assert rule is not None
        live = " (A reload applies it.)" if rule.live else ""
        yield from (f"# {line}" for line in textwrap.wrap(rule.meaning + live, COMMENT_COLUMNS))
        yield f"# {name} = {value_text(getattr(settings, name))}"
        yield ""


def key_text(key: str) -> str:
    return key if key.replace("-", "").replace("_", "").isalnum() and key.isascii() else json.dumps(key)


def value_text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | Path):
        return json.dumps(str(value))  # a JSON text is a TOML text
    if isinstance(value, list | tuple):
        return f"[{', '.join(value_text(item) for item in value)}]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key_text(k)} = {value_text(v)}" for k, v in value.items()) + "}"
    return str(value)
