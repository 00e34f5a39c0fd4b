"""The half of a virtual host that is about bindings: made, found again, gone with their ends."""

from __future__ import annotations

from embermq.broker.arguments import require_name
from embermq.broker.binding import Binding, identity_of
from embermq.broker.catalog import Catalog, binding_body, binding_name
from embermq.broker.event_properties import binding_ends
from embermq.broker.events import Events
from embermq.broker.exchange import Exchange
from embermq.broker.queue import Queue
from embermq.broker.sharing import check_binding


class Bindings:
    name: str
    catalog: Catalog
    events: Events
    queue_bindings: dict[Queue, dict[Binding, None]]

    def delete_if_unused(self, exchange: Exchange) -> None:
        """Of the other half: an auto-delete exchange goes with its last binding."""
        raise NotImplementedError

    def bind(
        self, source: Exchange, destination: Queue | Exchange, routing_key: str, arguments: dict[str, object]
    ) -> None:
        require_name("routing key", routing_key)
        binding = Binding(source, destination, routing_key, arguments)
        check_binding(binding)
        if not self.add_binding(binding):
            self.catalog.rely("binding", self.name, binding_name(binding))
            return
        if binding.durable:
            self.catalog.put("binding", self.name, binding_name(binding), binding_body(binding))
        self.events.emit("binding.created", binding_ends, binding)

    def add_binding(self, binding: Binding) -> bool:
        """Bind in memory; False when it was so before."""
        if not binding.source.add_binding(binding):
            return False
        if isinstance(binding.destination, Queue):
            self.queue_bindings.setdefault(binding.destination, {})[binding] = None
        return True

    def unbind(
        self, source: Exchange, destination: Queue | Exchange, routing_key: str, arguments: dict[str, object]
    ) -> None:
        binding = source.bindings.get(identity_of(destination, routing_key, arguments))
        if binding is None:
            gone = Binding(source, destination, routing_key, arguments)
            self.catalog.rely("binding", self.name, binding_name(gone))
            return
        self.remove_binding(binding)
        self.delete_if_unused(source)

    def remove_binding(self, binding: Binding) -> None:
        if not binding.source.remove_binding(binding):
            return  # it went with its other end
        if isinstance(binding.destination, Queue):
            self.queue_bindings.get(binding.destination, {}).pop(binding, None)
        if binding.durable:
            self.catalog.delete("binding", self.name, binding_name(binding))
        self.events.emit("binding.deleted", binding_ends, binding)
