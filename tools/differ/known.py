"""Differences that are meant; docs/differential.md gives the reason for each.

After one of them the two brokers are in different states, so a program is compared no further.
"""

from __future__ import annotations

import re
from typing import Any

from tools.differ.full_queue import keeps_what_a_limit_drops
from tools.differ.program import Program

CLOSES = ("channel.close", "connection.close")
# What RabbitMQ refuses in these words, and we do.
MORE_HERE = {
    "arguments of other queue types": re.compile(
        "invalid arg '(x-delivery-limit|x-dead-letter-strategy|x-queue-leader-locator)'.*rabbit_classic_queue"
        "|invalid arg 'x-max-priority'.*rabbit_quorum_queue"
        "|invalid arg 'x-cancel-on-ha-failover'.*rabbit_(quorum|stream)_queue"
        "|invalid arg 'x-single-active-consumer'.*rabbit_stream_queue"
    ),
    "conditions of queue.delete": re.compile("if-(empty|unused) flag set are not supported"),
}
# What we refuse, and RabbitMQ does not look at, or not first: arguments that only we have for this type.
OURS = {
    "arguments of other queue types, declared again": re.compile(
        "inequivalent arg '(x-single-active-consumer|x-max-priority)'.*but current is none"
    ),
    "which wrong argument is told first": re.compile(
        "invalid arg '(x-delivery-limit|x-dead-letter-strategy|x-queue-leader-locator)'"
    ),
}
WRONG_LOCATOR = re.compile("invalid arg 'x-queue-master-locator'")
DEFINITION_OF_NOTHING = re.compile("no (exchange|queue) '.*' in vhost '.*'|vhost_or_user_not_found")
INTERNAL_ERROR = 541
INNER_WORDS = ("function_clause", "badarg", "badmatch", "case_clause", "badmap")
OK, NOT_FOUND, NOT_ALLOWED = 200, 404, 405
RESOURCE_LOCKED, PRECONDITION_FAILED = 405, 406
SERVER_ERROR = 500


RETURNS = ("basic.recover", "basic.recover-async", "basic.nack", "basic.reject")


def known(step: dict[str, Any], ours: dict[str, Any], theirs: dict[str, Any], before: Program) -> str | None:
    """The name of the deliberate difference, if it is one; `before`: the program up to this step."""
    if "http" in ours and "http" in theirs:
        return known_of_http(ours["http"], theirs["http"])
    if "quiet_ms" in step and was_looked_at(ours.get("queues"), theirs.get("queues")):
        return "looks that are refused keep an exclusive queue"
    if step["do"] == "queue.unbind" and closes_with(ours, RESOURCE_LOCKED):
        return "unbinding another connection's exclusive queue"
    if step["do"] == "queue.delete" and closes_with(ours, PRECONDITION_FAILED):
        return "conditions of queue.delete"
    if step["do"] == "queue.bind" and closes_with(ours, RESOURCE_LOCKED):
        return "binding another connection's exclusive queue in a wrong way"
    if step["do"] == "queue.declare" and WRONG_LOCATOR.search(str(ours)):
        return "a wrong x-queue-master-locator"
    if step["do"] in RETURNS and keeps_what_a_limit_drops(before, ours, theirs):
        return "what comes back to a full queue, and may go out at once"
    if step["do"] == "queue.declare" and closes_with(ours, PRECONDITION_FAILED):
        for meaning, words in OURS.items():
            if words.search(str(ours)):
                return meaning
    if is_still_counted(before, step, ours, theirs):
        return "what expires at once behind others in a priority queue"
    for told in theirs.values():
        if isinstance(told, list):
            if any(map(is_crash, told)):
                return "RabbitMQ crashes"
            for meaning, words in MORE_HERE.items():
                if any(answer[0] in CLOSES and words.search(answer[1]["reply-text"]) for answer in told):
                    return meaning
    return None


def known_of_http(ours: dict[str, Any], theirs: dict[str, Any]) -> str | None:
    if theirs["status"] >= SERVER_ERROR:
        return "RabbitMQ crashes"
    reasons = [
        str(side["body"].get("reason")) if isinstance(side["body"], dict) else "" for side in (ours, theirs)
    ]
    if reasons[1] in INNER_WORDS or reasons[1].startswith("['not_"):
        return "RabbitMQ tells what went wrong inside"
    if DEFINITION_OF_NOTHING.fullmatch(reasons[0]):
        return "definitions that name what is not there"
    if " must be " in reasons[0]:
        return "bodies with wrong types"
    if all(reason.startswith("Page out of range") for reason in reasons):
        return "RabbitMQ has made a queue for aliveness-test"
    if "ha-" in reasons[1] and "are not recognised policy settings" in reasons[1]:
        return "operator policies may have more keys in RabbitMQ 4"
    if ours["status"] == NOT_FOUND and (theirs["status"] == NOT_ALLOWED or "nodedown" in reasons[1]):
        return "a path, or a node, that is not there"
    if ours["status"] == NOT_FOUND and theirs["status"] == OK:
        return "bindings of a thing that is not there"
    if reasons[0] == "vhost_not_found":
        return "a virtual host that is not there"
    if all("should be regular expression but is invalid" in reason for reason in reasons):
        return "what is wrong with a regular expression"
    if reasons[0] == "Pagination parameters are invalid" and theirs["status"] == OK:
        return "a filter that is no regular expression"
    if all("apply-to '" in reason for reason in reasons):
        return "apply-to has more values in RabbitMQ 4"
    return None


def was_looked_at(ours: Any, theirs: Any) -> bool:
    """A queue of another connection has expired here; there, this tool kept it alive by asking for it."""
    if not isinstance(ours, dict) or not isinstance(theirs, dict):
        return False
    differ = [(ours[name], theirs.get(name)) for name in ours if ours[name] != theirs.get(name)]
    return bool(differ) and all(pair == (NOT_FOUND, RESOURCE_LOCKED) for pair in differ)


def is_still_counted(
    before: Program, step: dict[str, Any], ours: dict[str, Any], theirs: dict[str, Any]
) -> bool:
    """RabbitMQ counts a message in a queue with priorities that has expired but is not the first."""
    if step["do"] != "basic.publish" or ours.keys() != theirs.keys():
        return False
    if any(ours[place] != theirs[place] for place in ours if place != "queues"):
        return False
    with_priorities = {
        one["with"].get("queue")
        for one in before
        if one["do"] == "queue.declare" and "x-max-priority" in one["with"].get("arguments", {})
    }
    differ = [name for name in ours["queues"] if ours["queues"][name] != theirs["queues"][name]]
    counts = [(ours["queues"][name], theirs["queues"][name]) for name in differ]
    return set(differ) <= with_priorities and all(
        isinstance(here, list) and isinstance(there, list) and here[0] < there[0] and here[1] == there[1]
        for here, there in counts
    )


def closes_with(told: dict[str, Any], code: int) -> bool:
    return any(
        answer[0] == "channel.close" and answer[1]["reply-code"] == code
        for answers in told.values()
        if isinstance(answers, list)
        for answer in answers
    )


def is_crash(answer: list[Any]) -> bool:
    """The connection is gone without a word, or with INTERNAL_ERROR, or nobody answers any more."""
    if answer[0] == "connection.close":
        return bool(answer[1]["reply-code"] == INTERNAL_ERROR)
    return answer[0] in ("gone", "no answer to the probe")
