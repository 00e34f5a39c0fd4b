"""What comes back to a full queue whose consumers can take it: they get it here, and RabbitMQ drops it.

Classic queues of RabbitMQ drop from the head whatever is too much before they look for consumers. So only
there a message is missing that a consumer gets here; later ones may come in its place; and what was dropped
may turn up as a dead letter. Everything else about such a step must be the same on both sides.
"""

from __future__ import annotations

from typing import Any

from tools.differ.program import Program

Answer = list[Any]
Told = dict[str, Any]
DELIVER = "basic.deliver"


def keeps_what_a_limit_drops(before: Program, ours: Told, theirs: Told) -> bool:
    """`before`: the program up to the step that ours and theirs tell of."""
    limited = limited_queues(before)
    tags = tags_of(before, limited)
    kept = [answer for answer in missing(ours, theirs) if answer[1]["redelivered"]]
    instead = missing(theirs, ours)
    return (
        bool(kept)
        and all(is_from(answer, tags) for answer in kept)
        and all(is_from(answer, tags) or is_dead_letter(answer, limited) for answer in instead)
        and others(ours) == others(theirs)
        and (
            any(limited.values())  # with dead letters, any queue may be the longer one
            or changed(ours.get("queues"), theirs.get("queues")) <= limited.keys()
        )
    )


def limited_queues(program: Program) -> dict[str, bool]:
    """Queues that drop what is too much, and whether that becomes dead letters."""
    found = {}
    for step in program:
        arguments = step.get("with", {}).get("arguments", {})
        if (
            step["do"] == "queue.declare"
            and any(name.startswith("x-max-length") for name in arguments)
            and not str(arguments.get("x-overflow", "")).startswith("reject")
        ):
            found[step["with"].get("queue", "")] = "x-dead-letter-exchange" in arguments
    return found


def tags_of(program: Program, queues: dict[str, bool]) -> set[str]:
    """Of consumers of these; an empty one where the broker chose it, or nobody named the queue."""
    return {
        step["with"].get("consumer-tag", "")
        for step in program
        if step["do"] == "basic.consume" and (step["with"].get("queue") or "") in (*queues, "")
    }


def is_from(delivery: Answer, tags: set[str]) -> bool:
    tag = delivery[1]["consumer-tag"]
    return tag in tags or ("" in tags and tag.startswith("amq."))


def is_dead_letter(delivery: Answer, queues: dict[str, bool]) -> bool:
    deaths = delivery[2].get("headers", {}).get("x-death", [])
    return any(death.get("reason") == "maxlen" and death.get("queue") in queues for death in deaths)


def missing(here: Told, there: Told) -> list[Answer]:
    """Deliveries that one side has and the other has not, whatever their tags are."""
    known = [without_tag(answer) for answer in deliveries(there)]
    return [answer for answer in deliveries(here) if without_tag(answer) not in known]


def deliveries(told: Told) -> list[Answer]:
    return [answer for answers in answer_lists(told).values() for answer in answers if answer[0] == DELIVER]


def without_tag(delivery: Answer) -> Answer:
    fields = {name: value for name, value in delivery[1].items() if name != "delivery-tag"}
    return [fields, *delivery[2:]]


def others(told: Told) -> dict[str, list[Answer]]:
    """All but deliveries, where there is something."""
    left = {
        place: [answer for answer in answers if answer[0] != DELIVER]
        for place, answers in answer_lists(told).items()
    }
    return {place: answers for place, answers in left.items() if answers}


def answer_lists(told: Told) -> dict[str, list[Answer]]:
    return {place: answers for place, answers in told.items() if isinstance(answers, list)}


def changed(ours: Any, theirs: Any) -> set[str]:
    if not isinstance(ours, dict) or not isinstance(theirs, dict):
        return set()
    return {name for name in ours if ours[name] != theirs.get(name)}
