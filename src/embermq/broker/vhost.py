"""A virtual host: its exchanges, queues and bindings.

All changes of topology pass through here: they keep names unique, declarations equal, and take with a
deleted thing everything that hung on it. Permissions are checked by the caller, which knows the user.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Callable

from embermq.broker.counters import Counters
from embermq.broker.dead_letter.dropped import Dropped
from embermq.broker.dead_letter.router import DeadLetters
from embermq.broker.definitions import (
    Body,
    DefinitionStore,
)
from embermq.broker.delayed.service import Delays
from embermq.broker.events import Events, binding_ends, exchange_created, limits_set, queue_created
from embermq.broker.exchange.binding import Binding, identity_of, via_names
from embermq.broker.exchange.deletion import REPLY_PREFIX, BindingRemoval
from embermq.broker.exchange.exchange import DELAYED_TYPE, MATCHERS, Exchange
from embermq.broker.exchange.hash_types import check_hash_arguments
from embermq.broker.firehose import Trace, add_trace_exchange
from embermq.broker.lease.registry import Leases
from embermq.broker.limits import changed_limits, limit_reached
from embermq.broker.policy.parameter import Parameters
from embermq.broker.policy.policy import Policies
from embermq.broker.queue import arguments as args
from embermq.broker.queue.classic import ClassicQueue
from embermq.broker.queue.deletion import QueueDeletion
from embermq.broker.queue.queue import Queue, describe
from embermq.broker.queue.template import Defaults
from embermq.broker.storage import Storage
from embermq.broker.stream.arguments import STREAM, check_declaration, require_equal_declaration
from embermq.broker.stream.stream import Stream
from embermq.broker.turn import Turn
from embermq.errors import AccessRefused, CommandInvalid, NotFound, PreconditionFailed, ResourceLocked
from embermq.store.disk.layout import new_queue_id

RESERVED_PREFIX = "amq."
DEFAULT_EXCHANGE = ""
PREDECLARED = {
    "amq.direct": "direct",
    "amq.fanout": "fanout",
    "amq.topic": "topic",
    "amq.headers": "headers",
    "amq.match": "headers",
}
GENERATED_PREFIX = "amq.gen-"


def generated_name(prefix: str) -> str:
    """A name that cannot be guessed, as RabbitMQ makes them: amq.gen-JzTY20BRgKO-HjmUJj0wLg."""
    return prefix + base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip("=")


class VirtualHost:
    def __init__(
        self,
        name: str,
        turn: Turn,
        definitions: DefinitionStore,
        storage: Storage | None = None,
        events: Events | None = None,
        defaults: Defaults | None = None,
        stream_storage: Callable[[], Storage | None] | None = None,
    ) -> None:
        self.name = name
        self.defaults = defaults or Defaults()
        self.default_queue_type = ""  # of queues that say none and are there to stay
        self.templated: dict[Queue, dict[str, object]] = {}  # what queues have from templates
        self.events = events or Events()
        self.description = ""
        self.tags: tuple[str, ...] = ()
        self.protected = False  # may not be deleted
        self.trace: Trace | None = None  # the firehose, while it is on
        self.find_service: Callable[[VirtualHost, str], Queue | None] = no_service
        self.past = Counters()  # of queues, exchanges and channels that are gone; and how many there were
        self.limits: dict[str, int] = {}  # max-connections, max-queues
        self.connection_count = 0
        self.turn = turn
        self.definitions = definitions
        self.storage = storage
        self.stream_storage = stream_storage or (lambda: storage)
        self.policies = Policies(self)
        self.parameters = Parameters(definitions, name)
        self.dead_letters = DeadLetters(self)
        self.dropped = Dropped(self)
        self.leases = Leases(self)
        self.queue_deletion = QueueDeletion(self)
        self.binding_removal = BindingRemoval(self)
        self.closing = False  # it goes with everything in it
        self.delays = Delays(self)
        self.alternates: dict[str, dict[Exchange, None]] = {}  # by the name they name, existing or not
        self.exchanges: dict[str, Exchange] = {}
        self.queues: dict[str, Queue] = {}
        self.queue_bindings: dict[Queue, dict[Binding, None]] = {}
        self.leaving: dict[Queue, int] = {}  # how many ends bring them messages back, in pieces
        self.ending: set[Queue] = set()  # exclusive ones that go with their connections, one after the other
        self.exchanges[DEFAULT_EXCHANGE] = Exchange(self, DEFAULT_EXCHANGE, "direct", durable=True)
        for exchange_name, exchange_type in PREDECLARED.items():
            self.exchanges[exchange_name] = Exchange(self, exchange_name, exchange_type, durable=True)
        add_trace_exchange(self)

    # -- queues

    def queue(self, name: str) -> Queue:
        queue = self.find_queue(name)
        if queue is None:
            raise NotFound(f"no queue '{name}' in vhost '{self.name}'")
        return queue

    def find_queue(self, name: str) -> Queue | None:
        """One that is about to go with its connection is deleted now."""
        queue = self.queues.get(name)
        if queue is not None and queue in self.ending:
            self.delete_queue(queue)
            return None
        return queue

    def queue_for(self, name: str, owner: object) -> Queue:
        """The queue, for use by a connection that must not touch other connections' exclusive ones."""
        queue = self.queue(name)
        require_access(queue, owner)
        return queue

    def declare_queue(
        self,
        name: str,
        *,
        owner: object,
        durable: bool,
        exclusive: bool,
        auto_delete: bool,
        arguments: dict[str, object],
        generated: bool = False,
    ) -> Queue:
        """`generated` says that the name is not the client's choice; an empty one is generated here."""
        self.past.queues_declared += 1
        existing = self.find_queue(name)
        what = f"queue '{name}' in vhost '{self.name}'"
        template = self.defaults.templates.required(arguments, what) if existing is None else {}
        if self.default_queue_type and "x-queue-type" not in arguments | template:
            if existing is not None:
                kind = existing.arguments.get("x-queue-type", "classic")
                arguments = {**arguments, "x-queue-type": kind}  # whatever the default was then
            elif durable and not exclusive and not auto_delete and not generated:
                arguments = {**arguments, "x-queue-type": self.default_queue_type}
        if existing is not None:
            require_access(existing, owner)
            if exclusive != existing.exclusive:
                raise locked(existing)
            args.require_equal(what, "durable", durable and not exclusive, bool(existing.durable))
            args.require_equal(what, "auto_delete", auto_delete, bool(existing.auto_delete))
            require_equal_declaration(what, arguments, existing.arguments)
            self.definitions.rely("queue", self.name, name)
            return existing
        if name.startswith(RESERVED_PREFIX) and not generated:
            raise AccessRefused(f"queue name '{name}' contains reserved prefix 'amq.*'")
        kind = (template | arguments).get("x-queue-type")
        if (generated or not name) and kind in ("quorum", STREAM):
            raise PreconditionFailed(f"Cannot declare a server-named queue for type rabbit_{kind}_queue")
        name = name or generated_name(GENERATED_PREFIX)
        args.require_name("queue name", name)
        self.require_room(name)
        what = f"queue '{name}' in vhost '{self.name}'"
        check_declaration(what, template | arguments, durable, exclusive, auto_delete)
        self.binding_removal.finish(Queue, name)
        queue = self.add_queue(
            name,
            id=new_queue_id(durable and not exclusive),
            owner=owner if exclusive else None,
            durable=durable and not exclusive,  # it goes with its connection, and no connection outlives us
            auto_delete=auto_delete,
            arguments=arguments,
            template=template,
        )
        if queue.durable:
            self.definitions.put("queue", self.name, name, queue.definition())
        self.events.emit("queue.created", queue_created, queue)
        return queue

    def note_ttl_history(self, queue: Queue) -> None:
        """How long messages live has changed: what those from before were given must outlast a restart."""
        if queue.durable and self.queues.get(queue.name) is queue:
            self.definitions.put("queue", self.name, queue.name, queue.definition())

    def definition(self) -> Body:
        body: Body = {"description": self.description, "tags": list(self.tags), "limits": self.limits}
        if self.protected:
            body["protected"] = True
        if self.closing:
            body["closing"] = True
        return body | ({"default_queue_type": self.default_queue_type} if self.default_queue_type else {})

    def set_limit(self, name: str, value: int | None) -> None:
        """Set a limit, or with None do without it."""
        self.limits = changed_limits(self.limits, name, value)
        self.definitions.put("vhost", "", self.name, self.definition())
        self.events.emit("vhost.limits.set", limits_set, self.name, self.limits)

    def require_room(self, name: str) -> None:
        """May there be another queue? Those for direct replies do not count, nor do those that are
        about to go with their connections."""
        if limit_reached(self.limits, "max-queues", len(self.queues)) is None:
            return
        count = sum(
            not (known.startswith(REPLY_PREFIX) or queue in self.ending)
            for known, queue in self.queues.items()
        )
        limit = limit_reached(self.limits, "max-queues", count)
        if limit is not None:
            raise PreconditionFailed(
                f"cannot declare queue '{name}': queue limit in vhost '{self.name}' ({limit}) is reached"
            )

    def add_queue(
        self,
        name: str,
        *,
        id: str,
        owner: object = None,
        durable: bool,
        auto_delete: bool,
        arguments: dict[str, object],
        template: dict[str, object] | None = None,
    ) -> Queue:
        queue_type = str({**(template or {}), **arguments}.get("x-queue-type", "classic"))
        policies = self.policies.for_queue(name, queue_type)
        effective = policies.over(arguments, template).values
        is_stream = queue_type == STREAM
        kind: type[Stream] | type[ClassicQueue] = Stream if is_stream else ClassicQueue
        queue = kind(
            self,
            name,
            self.turn,
            durable=durable,
            auto_delete=auto_delete,
            owner=owner,
            arguments=arguments,
            effective=effective,
            storage=self.stream_storage() if is_stream else self.storage,
            id=id,
        )
        self.policies.note(queue, policies)
        if template:
            self.templated[queue] = template
        self.queues[name] = queue
        self.past.queues_created += 1
        self.exchanges[DEFAULT_EXCHANGE].changed()
        return queue

    def add_reply_queue(self, prefix: str, owner: object) -> Queue:
        """A queue under a name that cannot be guessed, deleted with its first consumer."""
        return self.add_queue(
            generated_name(prefix),
            id=new_queue_id(durable=False),
            owner=owner,
            durable=False,
            auto_delete=True,
            arguments={},
        )

    def delete_queue(self, queue: Queue) -> int:
        """Remove a queue with its messages, bindings and consumers; how many messages were ready."""
        self.ending.discard(queue)
        if queue.deleted:
            return 0
        queue.deleted = True
        del self.queues[queue.name]
        self.queue_deletion.note(queue)
        if queue.durable:
            if not self.queue_deletion.leaves_letters(queue):
                self.queue_deletion.note_files(queue)
            self.definitions.delete("queue", self.name, queue.name)
        self.binding_removal.note(queue)
        for source in {binding.source for binding in self.queue_bindings.get(queue, ())}:
            source.changed()
        self.exchanges[DEFAULT_EXCHANGE].changed()
        self.leases.queue_deleted(queue)
        consumers, queue.consumers = queue.consumers, []
        for consumer in consumers:
            consumer.queue_deleted()
        self.past.queues_deleted += 1
        self.policies.forget(queue)
        self.templated.pop(queue, None)
        queue.add_counts_to(self.past)
        self.delays.take_back_from_queue(queue.name)
        count = queue.ready_count
        self.binding_removal.begin(queue, self.binding_removal.of_queue(queue))
        self.queue_deletion.add(queue)
        return count

    def purge_queue(self, queue: Queue) -> int:
        """Forget its ready messages and those that wait to come to it; how many were ready."""
        self.delays.take_back_from_queue(queue.name)
        return queue.purge()

    # -- exchanges

    def service(self, name: str) -> Queue | None:
        """A system service, in the place of a queue."""
        return self.find_service(self, name)

    def exchange(self, name: str) -> Exchange:
        exchange = self.exchanges.get(name)
        if exchange is None:
            raise NotFound(f"no exchange '{name}' in vhost '{self.name}'")
        return exchange

    def declare_exchange(
        self,
        name: str,
        type: str,
        *,
        durable: bool,
        auto_delete: bool,
        internal: bool,
        arguments: dict[str, object],
    ) -> Exchange:
        check_exchange_type(type)
        if type == DELAYED_TYPE:
            args.check_delayed_type(arguments.get("x-delayed-type"), MATCHERS)
        existing = self.exchanges.get(name)
        if existing is not None:
            what = describe_exchange(existing)
            args.require_equal(what, "type", args.atom(type), args.atom(existing.type))
            args.require_equal(what, "durable", durable, bool(existing.durable))
            args.require_equal(what, "auto_delete", auto_delete, bool(existing.auto_delete))
            args.require_equal(what, "internal", internal, bool(existing.internal))
            args.require_equal_arguments(
                what, args.COMPARED_EXCHANGE_ARGUMENTS, arguments, existing.arguments
            )
            self.definitions.rely("exchange", self.name, name)
            return existing
        if name.startswith(RESERVED_PREFIX):
            raise AccessRefused(f"exchange name '{name}' contains reserved prefix 'amq.*'")
        what = f"exchange '{name}' in vhost '{self.name}'"
        args.require_name("exchange name", name)
        args.check_exchange_arguments(what, arguments)
        if "x-consistent-hash" in (type, arguments.get("x-delayed-type")):
            check_hash_arguments(what, arguments)
        self.binding_removal.finish(Exchange, name)
        exchange = Exchange(
            self,
            name,
            type,
            durable=durable,
            auto_delete=auto_delete,
            internal=internal,
            arguments=arguments,
        )
        self.exchanges[name] = exchange
        self.policies.apply_to_exchange(exchange)
        exchange.changed()  # it may have been named as an alternate before
        if durable:
            self.definitions.put("exchange", self.name, name, exchange.definition())
        self.events.emit("exchange.created", exchange_created, exchange)
        return exchange

    def delete_exchange_named(self, name: str, if_unused: bool) -> Exchange | None:
        """What exchange.delete asks for; a missing exchange is no error (RabbitMQ since 3.2)."""
        if name.startswith(RESERVED_PREFIX):
            raise AccessRefused(f"deletion of system exchange '{name}' in vhost '{self.name}' not allowed")
        exchange = self.exchanges.get(name)
        if exchange is None:
            self.definitions.rely("exchange", self.name, name)
            return None
        if if_unused and exchange.bindings:
            raise PreconditionFailed(f"{describe_exchange(exchange)} in use")
        self.delete_exchange(exchange)
        return exchange

    def delete_exchange(self, exchange: Exchange) -> None:
        if not exchange.deleted:
            self.take_out(exchange)
            self.binding_removal.note(exchange)
            self.binding_removal.begin(exchange, self.binding_removal.of_exchange(exchange))

    def take_out(self, exchange: Exchange) -> None:
        """It is no longer here; its bindings are left."""
        exchange.deleted = True
        del self.exchanges[exchange.name]
        exchange.changed()
        self.past.add_exchange(*exchange.counts())
        if exchange.durable:
            self.definitions.delete("exchange", self.name, exchange.name)
        self.delays.take_back_from_exchange(exchange.name)
        if exchange.alternate is not None:
            self.alternates[exchange.alternate].pop(exchange, None)

    def is_unused(self, exchange: Exchange) -> bool:
        """An auto-delete exchange goes with its last binding."""
        return bool(exchange.auto_delete and not exchange.bindings and not exchange.deleted)

    def delete_if_unused(self, exchange: Exchange) -> None:
        if self.is_unused(exchange):
            self.delete_exchange(exchange)

    def forget_routes(self) -> None:
        """Channels must check permissions and resolve routes again."""
        for exchange in self.exchanges.values():
            exchange.version += 1
            exchange.forget_routes()

    # -- bindings

    def bind(
        self, source: Exchange, destination: Queue | Exchange, routing_key: str, arguments: dict[str, object]
    ) -> None:
        args.require_name("routing key", routing_key)
        via = tuple(self.exchange(name) for name in via_names(arguments))
        binding = Binding(source, destination, routing_key, arguments, via)
        source.matcher.check(binding)
        binding.check_chain()
        if not self.add_binding(binding):
            self.definitions.rely("binding", self.name, binding.definition_name())
            return
        if binding.durable:
            self.definitions.put("binding", self.name, binding.definition_name(), binding.definition())
        self.events.emit("binding.created", binding_ends, binding)

    def add_binding(self, binding: Binding) -> bool:
        """Bind in memory; False when it was so before."""
        if not binding.source.add_binding(binding):
            return False
        if isinstance(binding.destination, Queue):
            self.queue_bindings.setdefault(binding.destination, {})[binding] = None
        return True

    def bindings_to(self, destination: Queue | Exchange) -> list[Binding]:
        if isinstance(destination, Queue):
            return list(self.queue_bindings.get(destination, ()))
        bindings = (binding for source in destination.sources for binding in source.bindings.values())
        return [binding for binding in bindings if binding.destination is destination]

    def unbind(
        self, source: Exchange, destination: Queue | Exchange, routing_key: str, arguments: dict[str, object]
    ) -> None:
        binding = source.bindings.get(identity_of(destination, routing_key, arguments))
        if binding is None:
            gone = Binding(source, destination, routing_key, arguments)
            self.definitions.rely("binding", self.name, gone.definition_name())
            return
        self.remove_binding(binding)
        self.delete_if_unused(source)

    def remove_binding(self, binding: Binding) -> None:
        if not binding.source.remove_binding(binding):
            return  # it went with its other end
        if isinstance(binding.destination, Queue):
            self.queue_bindings.get(binding.destination, {}).pop(binding, None)
        if binding.durable:
            self.definitions.delete("binding", self.name, binding.definition_name())
        self.events.emit("binding.deleted", binding_ends, binding)


def no_service(vhost: VirtualHost, name: str) -> Queue | None:
    return None


def describe_exchange(exchange: Exchange) -> str:
    return f"exchange '{exchange.name}' in vhost '{exchange.vhost.name}'"


def check_exchange_type(type: str) -> None:
    if not type:
        raise CommandInvalid("invalid exchange type ''")
    if type not in MATCHERS and type != DELAYED_TYPE:
        raise CommandInvalid(f"unknown exchange type '{type}'")


def require_access(queue: Queue, owner: object) -> None:
    if queue.owner is not None and queue.owner is not owner:
        raise locked(queue)


def locked(queue: Queue) -> ResourceLocked:
    return ResourceLocked(
        f"cannot obtain exclusive access to locked {describe(queue)}. It could be originally declared on "
        "another connection or the exclusive property value does not match that of the original declaration."
    )
