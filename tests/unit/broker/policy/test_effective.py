"""Effective arguments: which value holds, and where it is from."""

from __future__ import annotations

import pytest

from embermq.broker.policy.effective import Arguments, resolve
from embermq.broker.policy.policy import OPERATOR_POLICY, POLICY, policy_from
from tests.support.domain import Loop, new_vhost

LENGTH = "x-max-length"


@pytest.mark.parametrize(
    ("declared", "template", "policy", "operator_policy", "expected"),
    [
        ({LENGTH: 9}, {}, {}, {}, (9, "declared")),
        ({}, {LENGTH: 8}, {}, {}, (8, "template")),
        ({LENGTH: 9}, {LENGTH: 8}, {}, {}, (9, "declared")),
        ({LENGTH: 9}, {}, {"max-length": 7}, {}, (7, "policy")),
        ({LENGTH: 9}, {}, {"max-length": 10}, {}, (9, "declared")),
        ({}, {LENGTH: 8}, {"max-length": 7}, {"max-length": 6}, (6, "operator policy")),
        ({}, {}, {"max-length": 5}, {"max-length": 6}, (5, "policy")),
        ({}, {}, {}, {"max-length": 6}, (6, "operator policy")),
    ],
)
def test_each_value_has_a_source(
    declared: dict[str, object],
    template: Arguments,
    policy: Arguments,
    operator_policy: Arguments,
    expected: tuple[int, str],
) -> None:
    found = resolve(declared, template, policy, operator_policy)
    assert (found.values[LENGTH], found.sources[LENGTH]) == expected


def test_a_queue_is_built_with_what_policies_say() -> None:
    loop = Loop()
    vhost = new_vhost(loop)
    for kind, length in ((POLICY, 7), (OPERATOR_POLICY, 6)):
        body = {"pattern": "^q$", "definition": {"max-length": length}}
        vhost.policies.set(kind, policy_from("short", body, kind == OPERATOR_POLICY))
    queue = vhost.declare_queue(
        "q", owner=None, durable=False, exclusive=False, auto_delete=False, arguments={"x-max-priority": 3}
    )
    assert queue.arguments == {"x-max-priority": 3} and queue.effective[LENGTH] == 6
    assert vhost.policies.effective(queue).sources == {
        "x-max-priority": "declared",
        LENGTH: "operator policy",
    }
    vhost.policies.delete(OPERATOR_POLICY, "short")
    loop.run()  # policies are applied in pieces where time is short
    assert queue.effective[LENGTH] == 7
    assert vhost.policies.effective(queue).sources[LENGTH] == "policy"
