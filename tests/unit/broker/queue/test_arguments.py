"""Arguments of declarations: what each must look like, with RabbitMQ's words for what is wrong."""

from __future__ import annotations

from decimal import Decimal

import pytest

from embermq.broker.queue.arguments import (
    QUEUE_ARGUMENTS,
    check_queue_arguments,
    require_equal_arguments,
    type_name,
)
from embermq.errors import PreconditionFailed
from embermq.wire.table import Timestamp

WHAT = "queue 'q' in vhost '/'"


def refusal(arguments: dict[str, object], durable: bool = True, **more: bool) -> str | None:
    try:
        check_queue_arguments(
            WHAT, arguments, durable, more.get("exclusive", False), more.get("auto_delete", False)
        )
    except PreconditionFailed as error:
        return error.detail
    return None


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"anything": object()},
        {"x-message-ttl": 0},
        {"x-message-ttl": 315_360_000_000},
        {"x-expires": 1},
        {"x-max-length": 0, "x-max-length-bytes": 2**40},
        {"x-max-priority": 255},
        {"x-overflow": "reject-publish"},
        {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "k"},
        {"x-queue-type": "classic"},
        {"x-queue-type": "quorum"},
        {"x-queue-mode": "lazy"},
        {"x-queue-version": 2},
        {"x-single-active-consumer": True},
    ],
)
def test_what_is_fine(arguments: dict[str, object]) -> None:
    assert refusal(arguments) is None


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("x-message-ttl", -1, "{value_negative,-1}"),
        ("x-message-ttl", 315_360_000_001, "{value_too_large,315360000001}"),
        ("x-message-ttl", "10", '"expected integer, got longstr"'),
        ("x-message-ttl", True, '"expected integer, got bool"'),
        ("x-message-ttl", 1.0, '"expected integer, got double"'),
        ("x-message-ttl", Timestamp(5), '"expected integer, got timestamp"'),
        ("x-expires", 0, "{value_zero,0}"),
        ("x-max-length", -5, "{value_negative,-5}"),
        ("x-max-length", 2**63, "{value_too_large,9223372036854775808}"),
        ("x-max-priority", 256, "{max_value_exceeded,256}"),
        ("x-overflow", "spill", "invalid_overflow"),
        ("x-overflow", 1, "{unacceptable_type,signedint}"),
        ("x-queue-type", "stack", "\"unsupported queue type 'stack'\""),
        ("x-queue-mode", "eager", "\"unsupported queue mode 'eager'\""),
        ("x-queue-version", 3, "\"unsupported queue version '3'\""),
        ("x-single-active-consumer", "yes", "{unacceptable_type,longstr}"),
        ("x-dead-letter-routing-key", "k", "routing_key_but_no_dlx_defined"),
    ],
)
def test_what_is_not(name: str, value: object, problem: str) -> None:
    assert refusal({name: value}) == f"invalid arg '{name}' for {WHAT}: {problem}"


def test_a_dead_letter_exchange_has_a_sentence_of_its_own() -> None:
    assert refusal({"x-dead-letter-exchange": 5}) == (
        f"invalid type 'signedint' for arg 'x-dead-letter-exchange' in {WHAT}"
    )


def test_quorum_queues_are_durable_shared_and_lasting() -> None:
    quorum: dict[str, object] = {"x-queue-type": "quorum"}
    assert refusal(quorum, durable=False) == f"invalid property 'non-durable' for {WHAT}"
    assert refusal(quorum, exclusive=True) == f"invalid property 'exclusive-owner' for {WHAT}"
    assert refusal(quorum, auto_delete=True) == f"invalid property 'auto-delete' for {WHAT}"


@pytest.mark.parametrize("name", QUEUE_ARGUMENTS)
def test_no_value_whatsoever_is_a_fault_of_ours(name: str) -> None:
    for value in (None, True, 0, -(2**63), 1.5, "", "x", b"x", [], {}, Decimal(1), Timestamp(0)):
        refusal({name: value})


def test_names_of_types() -> None:
    values = [True, 1, 2**31, None, "", 0.5, {}, [], b"", Decimal(1), Timestamp(1)]
    assert [type_name(value) for value in values] == [
        "bool",
        "signedint",
        "long",
        "void",
        "longstr",
        "double",
        "table",
        "array",
        "binary",
        "decimal",
        "timestamp",
    ]


@pytest.mark.parametrize(
    ("received", "current", "said"),
    [
        ({"a": 1}, {"a": 1}, None),
        ({"unknown": 1}, {}, None),
        ({"a": 1}, {"a": 2}, "received '1' but current is '2'"),
        ({"a": 1}, {}, "received the value '1' of type 'signedint' but current is none"),
        ({}, {"a": "x"}, "received none but current is the value 'x' of type 'longstr'"),
        ({"a": None}, {}, "received the value 'undefined' of type 'void' but current is none"),
    ],
)
def test_how_declarations_compare(
    received: dict[str, object], current: dict[str, object], said: str | None
) -> None:
    if said is None:
        require_equal_arguments(WHAT, ("a",), received, current)
        return
    with pytest.raises(PreconditionFailed) as error:
        require_equal_arguments(WHAT, ("a",), received, current)
    assert error.value.detail == f"inequivalent arg 'a' for {WHAT}: {said}"
