"""Loading of the settings: a file, the environment and flags become one `Config`, or one clear error."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from embermq.config.rule import ConfigError, accept, dotted, rule_of, settings_in, unknown
from embermq.config.settings import NAMES, SECTIONS, TABLES, Config
from embermq.config.toml_lines import key_lines, line_of

ENVIRONMENT_PREFIX = "EMBERMQ_"
# Variables of ours that are not settings of the broker.
OTHER_VARIABLES = {
    # of the command line: where a broker is, and its user
    "EMBERMQ_URL",
    "EMBERMQ_AMQP_URL",
    "EMBERMQ_USER",
    "EMBERMQ_PASSWORD",
    "EMBERMQ_COMPILE",
    "EMBERMQ_CFLAGS",
    "EMBERMQ_EXPECT",
    "EMBERMQ_TEST_TARGET",
    "EMBERMQ_CONFIG",
}
TEMPLATES = "templates"
KEYS_OF_FILE = (*NAMES, *SECTIONS, *TABLES, TEMPLATES)


def load(
    file: Path | None = None,
    environment: Mapping[str, str] | None = None,
    flags: Mapping[str, object] | None = None,
) -> Config:
    config = Config()
    if file is not None:
        config = from_file(config, file)
    given = {name: value for name, value in (flags or {}).items() if value is not None}
    for values, origin in (
        (from_environment(environment or {}), "the environment"),
        (given, "the command line"),
    ):
        try:
            config = merged(config, values)
        except ConfigError as error:
            raise ConfigError(f"{origin}: {error}", error.path) from None
    config.default.require_whole()
    return config


def from_file(config: Config, file: Path) -> Config:
    try:
        text = file.read_bytes().decode()
        values = tomllib.loads(text)
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: not TOML: {error}") from error
    try:
        return merged(config, values)
    except ConfigError as error:
        line = line_of(key_lines(text), error.path)
        place = f"{file}:{line}" if line else str(file)
        raise ConfigError(f"{place}: {error}", error.path) from None


def from_environment(environment: Mapping[str, str]) -> dict[str, object]:
    """EMBERMQ_BIND is `bind`, EMBERMQ_TLS_KEY is `key` in section `tls`."""
    found: dict[str, Any] = {}
    for variable, value in environment.items():
        if not variable.startswith(ENVIRONMENT_PREFIX) or variable in OTHER_VARIABLES:
            continue
        name = variable.removeprefix(ENVIRONMENT_PREFIX).lower()
        section, _, key = name.partition("_")
        if name not in NAMES and section in SECTIONS:
            found.setdefault(section, {})[key] = value
        else:
            found[name] = value
    return found


def merged(config: Config, values: Mapping[str, object]) -> Config:
    changes: dict[str, Any] = {}
    top = settings_in(Config)
    for name, value in values.items():
        if name in top:
            changes[name] = accept(top[name], value, (name,))
        elif name in SECTIONS:
            changes[name] = section(getattr(config, name), value, (name,))
        elif name in TABLES:
            changes[name] = tables(TABLES[name], value, name)
        elif name == TEMPLATES:
            changes[name] = templates(value)
        else:
            raise unknown(name, KEYS_OF_FILE)
    config = replace(config, **changes)
    for number, queue in enumerate(config.queues):
        if queue.template and queue.template not in config.templates:
            raise ConfigError(
                f"queues[{number}].template is {queue.template!r}; expected one of "
                f"{', '.join(config.templates) or '[templates], of which there are none'}",
                ("queues", number, "template"),
            )
    return config


def section(before: Any, values: object, path: tuple[str | int, ...]) -> Any:
    """A settings object with some of its settings changed."""
    if not isinstance(values, Mapping):
        raise ConfigError(f"{dotted(path)} is {values!r}; expected a table, [{dotted(path)}]", path)
    fields = settings_in(type(before) if not isinstance(before, type) else before)
    changes = {}
    for name, value in values.items():
        if name not in fields:
            raise unknown(name, fields, path)
        changes[name] = accept(fields[name], value, (*path, name))
    try:
        return before(**changes) if isinstance(before, type) else replace(before, **changes)
    except ConfigError as error:
        raise ConfigError(str(error), path) from None


def tables(kind: type, values: object, name: str) -> tuple[Any, ...]:
    if not isinstance(values, list):
        raise ConfigError(f"{name} is {values!r}; expected tables, each under [[{name}]]", (name,))
    made = []
    for number, value in enumerate(values):
        path = (name, number)
        for key, field in settings_in(kind).items():
            rule = rule_of(field)
            if rule is not None and rule.required and isinstance(value, Mapping) and key not in value:
                raise ConfigError(f"{dotted((*path, key))} is missing; every one of [[{name}]] has it", path)
        made.append(section(kind, value, path))
    return tuple(made)


def templates(values: object) -> dict[str, dict[str, Any]]:
    if not isinstance(values, Mapping):
        raise ConfigError(
            f"templates is {values!r}; expected tables, each under [templates.name]", (TEMPLATES,)
        )
    for name, arguments in values.items():
        if not isinstance(arguments, dict):
            path = (TEMPLATES, name)
            raise ConfigError(f"{dotted(path)} is {arguments!r}; expected a table of arguments", path)
    return dict(values)
