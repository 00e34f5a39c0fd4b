"""Plug-ins that misbehave, and services."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from embermq.plugin import Binding, ExchangeType, Message, Reply, Request, service


class Awkward(ExchangeType):
    """Does what the routing key says."""

    name = "x-awkward"

    def __init__(self, arguments: Mapping[str, object]) -> None:
        if arguments.get("refuse"):
            raise ValueError("these arguments make no sense")
        if arguments.get("fail"):
            raise RuntimeError("a fault in the constructor")
        self.bindings: list[Binding] = []

    def check(self, binding: Binding) -> None:
        if binding.routing_key == "fail-check":
            raise RuntimeError("a fault in check")

    def bind(self, binding: Binding) -> None:
        if binding.routing_key == "fail-bind":
            raise RuntimeError("a fault in bind")
        self.bindings.append(binding)

    def unbind(self, binding: Binding) -> None:
        self.bindings = [known for known in self.bindings if known.number != binding.number]

    def route(self, message: Message) -> Iterable[Binding]:
        if message.routing_key == "raise":
            raise RuntimeError("a fault in route")
        if message.routing_key == "nonsense":
            return ["no binding"]  # type: ignore[list-item]
        if message.routing_key == "slow":
            time.sleep(0.15)
        return self.bindings


@service("upper")
def upper(request: Request) -> object:
    return request.body.upper()


@service("who")
def who(request: Request) -> object:
    return {"user": request.user, "vhost": request.vhost, "header": request.headers.get("k")}


@service("reply")
def reply(request: Request) -> object:
    return Reply(b"<a/>", "text/xml", {"h": 1})


@service("raises")
def raises(request: Request) -> object:
    raise LookupError("no such thing")


@service("sleeps", timeout_s=0.2)
def sleeps(request: Request) -> object:
    time.sleep(1.0)
    return b""


@service("no-json")
def no_json(request: Request) -> object:
    return {1, 2}
