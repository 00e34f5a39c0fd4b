"""A connection that only looks: how many messages and consumers queues have, and what is left at the end."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tools.differ.link import Link
from tools.differ.program import EXCHANGES, QUEUES

REMAINS_MAX = 50


class Observer:
    """Asks by passive declarations, one channel per name, since an error closes the channel."""

    def __init__(self, port: int, vhost: str) -> None:
        self.port, self.vhost = port, vhost
        self.connect()

    def connect(self) -> None:
        """Also again: after a restart, and after an error that closed the connection."""
        self.link = Link(self.port, self.vhost)
        self.open: set[int] = set()

    def close(self) -> None:
        self.link.drop()

    def reconnect(self) -> None:
        self.close()
        self.connect()

    def ask(self, requests: list[tuple[str, dict[str, Any]]]) -> list[list[Any]]:
        """The answers to these requests, which may be errors."""
        for number, (name, fields) in enumerate(requests, 1):
            if number not in self.open:
                self.link.send(number, "channel.open")
            self.link.send(number, name, fields)
        answers: dict[int, list[Any]] = {}
        while len(answers) < len(requests):
            seen = self.link.read()
            assert seen is not None, f"no answer to {requests}"
            if seen.name == "connection.close":
                self.reconnect()
                return [seen.told()]
            if seen.name == "channel.open-ok":
                self.open.add(seen.channel)
                continue
            if seen.name == "channel.close":
                self.open.discard(seen.channel)
                self.link.send(seen.channel, "channel.close-ok")
            answers[seen.channel] = seen.told()
        return [answers[number] for number in sorted(answers)]

    def counts(self) -> dict[str, Any]:
        """Messages and consumers of each queue; the text of the error where there is none to see."""
        answers = self.ask([("queue.declare", {"queue": name, "passive": True}) for name in QUEUES])
        return {
            name: [fields["message-count"], fields["consumer-count"]]
            if method == "queue.declare-ok"
            else fields["reply-code"]
            for name, (method, fields) in zip(QUEUES, answers, strict=True)
        }

    def remains(self) -> dict[str, Any]:
        """Which exchanges there are, and the messages of all queues (which lose them)."""
        answers = self.ask([("exchange.declare", {"exchange": name, "passive": True}) for name in EXCHANGES])
        exchanges = [name for name, answer in zip(EXCHANGES, answers, strict=True) if len(answer[1]) == 0]
        messages: dict[str, list[Any]] = {}
        for name in QUEUES:
            found = messages.setdefault(name, [])
            while len(found) < REMAINS_MAX:
                answer = self.ask([("basic.get", {"queue": name, "no-ack": True})])[0]
                if answer[0] != "basic.get-ok":
                    break
                found.append([{**answer[1], "delivery-tag": 0}, *answer[2:]])
        return {"exchanges": exchanges, "messages": messages}

    def clean(self, names: Iterable[str]) -> None:
        for name in sorted({*QUEUES, *names}):
            self.ask([("queue.delete", {"queue": name})])
        for name in EXCHANGES:
            self.ask([("exchange.delete", {"exchange": name})])
