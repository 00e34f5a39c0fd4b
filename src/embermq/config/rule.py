"""Rules of a setting: its kind, its bounds, and the message for a wrong value.

A setting is a field of a frozen dataclass, made by `setting(default, meaning, ...)`. The kind is that of the
default; documentation, `embermq config example` and the checks all read the same field.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

LOCAL_HOSTS = ("127.0.0.1", "::1", "localhost")
KINDS = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    tuple: "a list of texts",
    dict: "a table",
}
FLAGS = {
    "true": True,
    "yes": True,
    "on": True,
    "1": True,
    "false": False,
    "no": False,
    "off": False,
    "0": False,
}


class ConfigError(Exception):
    """A setting that cannot be; the text says which, where and what was expected."""

    def __init__(self, text: str, path: tuple[str | int, ...] = ()) -> None:
        super().__init__(text)
        self.path = path  # of the setting at fault, for the caller that knows the line


@dataclass(frozen=True)
class Rule:
    meaning: str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    required: bool = False
    secret: bool = False  # never shown, not even in the sentence that refuses it
    live: bool = False  # a reload applies it; everything else needs a restart


def setting(default: Any, meaning: str, **rule: Any) -> Any:
    """A field of a settings class; `rule` is what `Rule` takes."""
    metadata = {"rule": Rule(meaning, **rule)}
    if isinstance(default, dict):
        return dataclasses.field(default_factory=lambda: dict(default), metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def rule_of(field: dataclasses.Field[Any]) -> Rule | None:
    """None for the fields that hold sections and lists of tables."""
    return field.metadata.get("rule")


def settings_in(kind: type) -> dict[str, dataclasses.Field[Any]]:
    return {field.name: field for field in dataclasses.fields(kind) if rule_of(field) is not None}


def default_of(field: dataclasses.Field[Any]) -> Any:
    if field.default is not dataclasses.MISSING:
        return field.default
    assert field.default_factory is not dataclasses.MISSING
    return field.default_factory()


def dotted(path: tuple[str | int, ...]) -> str:
    """("users", 0, "name") -> users[0].name"""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


def accept(field: dataclasses.Field[Any], value: object, path: tuple[str | int, ...]) -> object:
    """The value as the setting keeps it; ConfigError when it cannot be."""
    rule = rule_of(field)
    assert rule is not None
    kept = converted(value, default_of(field))
    name, shown = dotted(path), "hidden" if rule.secret else repr(value)
    if kept is None:
        kind = type(default_of(field))
        expected = KINDS.get(kind, "text")
        raise ConfigError(f"{name} is {shown}; expected {expected}", path)
    problem = problem_with(rule, kept)
    if problem:
        shown = "hidden" if rule.secret else shown_value(kept)
        raise ConfigError(f"{name} is {shown}; expected {problem}", path)
    return kept


def shown_value(value: object) -> str:
    return str(value) if isinstance(value, int | float) else repr(value)


def problem_with(rule: Rule, value: object) -> str:
    """What was expected instead; empty when the value may stand."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        low, high = rule.minimum, rule.maximum
        if (low is not None and value < low) or (high is not None and value > high):
            return f"{low} to {high}" if high is not None else f"{low} or more"
    if rule.choices:
        for item in value if isinstance(value, tuple) else (value,):
            if item not in rule.choices:
                return f"one of {', '.join(rule.choices)}"
    if any("\0" in str(item) for item in (value if isinstance(value, tuple) else (value,))):
        return "text without NUL characters"
    if rule.required and value in ("", ()):
        return "something"
    return ""


def converted(value: object, default: object) -> object:
    """Into the kind of the default; None when that cannot be. Text comes from the environment and flags."""
    kind = type(default)
    if isinstance(default, Path):
        return Path(value) if isinstance(value, str | Path) else None
    if isinstance(value, bool) or kind is bool:
        value = FLAGS.get(value.lower()) if isinstance(value, str) else value
        return value if isinstance(value, bool) and kind is bool else None
    if kind in (int, float) and isinstance(value, int | float | str):
        if kind is int and isinstance(value, float):
            return None
        try:
            return kind(value)
        except ValueError:
            return None
    if kind is tuple:
        if isinstance(value, str):
            return tuple(item.strip() for item in value.split(",") if item.strip())
        if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
            return tuple(value)
        return None
    if kind is dict:
        return dict(value) if isinstance(value, Mapping) else None
    return value if isinstance(value, kind) else None


def unknown(name: str, known: Iterable[str], path: tuple[str | int, ...] = ()) -> ConfigError:
    import difflib  # only after a mistake

    names = list(known)
    near = difflib.get_close_matches(name, names, 1)
    hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(names)}"
    return ConfigError(f"unknown setting {dotted((*path, name))!r}; {hint}", (*path, name))


class Checked:
    """A settings class that holds only what its rules allow."""

    def __post_init__(self) -> None:
        for name, field in settings_in(type(self)).items():
            accept(field, getattr(self, name), (name,))


def url_problem(url: str) -> str:
    """What is wrong with the address of a document that the broker fetches; empty where nothing is."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        return str(error)
    if parts.scheme not in ("https", "http") or not host or parts.username is not None:
        return "expected https://host/path"
    if parts.scheme == "http" and host not in LOCAL_HOSTS:
        return "expected https, because without it the answer could be changed on the way"
    return ""
