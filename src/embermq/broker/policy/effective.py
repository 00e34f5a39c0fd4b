"""Effective arguments: what was declared, and what a template, a policy and an operator policy add to it.

    declared > template > policy and operator policy

but for limits, of which the lowest holds (`keys`). They are resolved before a queue is built and again when
policies change; each value knows its source.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from embermq.broker.policy.keys import KEYS

Arguments = Mapping[str, object]


class Source(StrEnum):
    DECLARED = "declared"
    TEMPLATE = "template"
    POLICY = "policy"
    OPERATOR_POLICY = "operator policy"


@dataclass(frozen=True)
class Effective:
    values: dict[str, object]  # by the names of arguments: x-max-length
    sources: dict[str, Source]


def resolve(
    declared: dict[str, object],
    template: Arguments | None = None,
    policy: Arguments | None = None,
    operator_policy: Arguments | None = None,
) -> Effective:
    """The definitions of policies have names of their own: `max-length`."""
    sources = dict.fromkeys(template or (), Source.TEMPLATE) | dict.fromkeys(declared, Source.DECLARED)
    values = {**template, **declared} if template else declared
    added, origin = merged_policies(policy or {}, operator_policy or {})
    if not added:
        return Effective(values, sources)
    values = dict(values)
    for name, value in added.items():
        key = KEYS[name]
        if key.argument in values:
            value = key.merge(values[key.argument], value)
            if value == values[key.argument]:
                continue
        values[key.argument] = value
        sources[key.argument] = origin[name]
    return Effective(values, sources)


def merged_policies(
    policy: Arguments, operator_policy: Arguments
) -> tuple[dict[str, object], dict[str, Source]]:
    """Both in one, and their sources. Where both have a key, the lower limit or else the operator's value."""
    merged = dict(policy)
    sources = dict.fromkeys(policy, Source.POLICY)
    for name, value in operator_policy.items():
        if name in policy:
            value = KEYS[name].merge(value, policy[name])
            if value == policy[name] and value != operator_policy[name]:
                continue
        merged[name] = value
        sources[name] = Source.OPERATOR_POLICY
    return merged, sources
