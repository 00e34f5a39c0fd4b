"""A filter by content type, as OpenAMQ's design notes have it for an example."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from embermq.plugin import Binding, ExchangeType, Message


class ContentTypeFilter(ExchangeType):
    """The routing key of a binding is a content type, `image/*` or `text/plain`."""

    name = "x-content-type"

    def __init__(self, arguments: Mapping[str, object]) -> None:
        self.bindings: dict[str, dict[int, Binding]] = {}

    def check(self, binding: Binding) -> None:
        if "/" not in binding.routing_key:
            raise ValueError(f"{binding.routing_key!r} is no content type")

    def bind(self, binding: Binding) -> None:
        self.bindings.setdefault(binding.routing_key, {})[binding.number] = binding

    def unbind(self, binding: Binding) -> None:
        del self.bindings[binding.routing_key][binding.number]

    def route(self, message: Message) -> Iterable[Binding]:
        content_type = message.properties.content_type or ""
        for wanted in (content_type, content_type.partition("/")[0] + "/*"):
            yield from self.bindings.get(wanted, {}).values()
