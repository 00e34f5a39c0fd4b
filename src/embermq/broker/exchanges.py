"""The part of a virtual host that is about exchanges: declared, found, deleted with all that hung on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from embermq.broker import arguments as args
from embermq.broker.bindings import Bindings
from embermq.broker.catalog import exchange_body
from embermq.broker.delays import Delays
from embermq.broker.event_properties import exchange_created
from embermq.broker.exchange import DELAYED_TYPE, Exchange
from embermq.broker.matcher import MATCHERS
from embermq.broker.policy import Policies
from embermq.broker.sharing import check_hash_arguments
from embermq.broker.tally import Tally
from embermq.broker.unbinding import Unbinding
from embermq.errors import AccessRefused, CommandInvalid, NotFound, PreconditionFailed

if TYPE_CHECKING:
    from embermq.broker.vhost import VirtualHost

RESERVED_PREFIX = "amq."
DEFAULT_EXCHANGE = ""
PREDECLARED = {
    "amq.direct": "direct",
    "amq.fanout": "fanout",
    "amq.topic": "topic",
    "amq.headers": "headers",
    "amq.match": "headers",
}


def describe_exchange(exchange: Exchange) -> str:
    return f"exchange '{exchange.name}' in vhost '{exchange.vhost.name}'"


class Exchanges(Bindings):
    exchanges: dict[str, Exchange]
    alternates: dict[str, dict[Exchange, None]]  # by the name they name, existing or not
    past: Tally
    policies: Policies
    delays: Delays
    unbinding: Unbinding

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
            self.catalog.rely("exchange", self.name, name)
            return existing
        if name.startswith(RESERVED_PREFIX):
            raise AccessRefused(f"exchange name '{name}' contains reserved prefix 'amq.*'")
        what = f"exchange '{name}' in vhost '{self.name}'"
        args.require_name("exchange name", name)
        args.check_exchange_arguments(what, arguments)
        if "x-consistent-hash" in (type, arguments.get("x-delayed-type")):
            check_hash_arguments(what, arguments)
        self.unbinding.finish(Exchange, name)
        exchange = Exchange(
            cast("VirtualHost", self),
            name,
            type,
            durable=durable,
            auto_delete=auto_delete,
            internal=internal,
            arguments=arguments,
        )
        self.exchanges[name] = exchange
        self.policies.apply_to_exchange(exchange)
        exchange.changed()  # somebody may have named it as an alternate before
        if durable:
            self.catalog.put("exchange", self.name, name, exchange_body(exchange))
        self.events.emit("exchange.created", exchange_created, exchange)
        return exchange

    def delete_exchange_named(self, name: str, if_unused: bool) -> Exchange | None:
        """What exchange.delete asks for; a missing exchange is no error (RabbitMQ since 3.2)."""
        if name.startswith(RESERVED_PREFIX):
            raise AccessRefused(f"deletion of system exchange '{name}' in vhost '{self.name}' not allowed")
        exchange = self.exchanges.get(name)
        if exchange is None:
            self.catalog.rely("exchange", self.name, name)
            return None
        if if_unused and exchange.bindings:
            raise PreconditionFailed(f"{describe_exchange(exchange)} in use")
        self.delete_exchange(exchange)
        return exchange

    def delete_exchange(self, exchange: Exchange) -> None:
        if not exchange.deleted:
            self.take_out(exchange)
            self.unbinding.note(exchange)
            self.unbinding.begin(exchange, self.unbinding.of_exchange(exchange))

    def take_out(self, exchange: Exchange) -> None:
        """It is no longer here; its bindings are left."""
        exchange.deleted = True
        del self.exchanges[exchange.name]
        exchange.changed()
        self.past.add_exchange(exchange)
        if exchange.durable:
            self.catalog.delete("exchange", self.name, exchange.name)
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
        """Whoever publishes here must ask again whether that is allowed, and where it goes."""
        for exchange in self.exchanges.values():
            exchange.version += 1
            exchange.forget_routes()


def check_exchange_type(type: str) -> None:
    if not type:
        raise CommandInvalid("invalid exchange type ''")
    if type not in MATCHERS and type != DELAYED_TYPE:
        raise CommandInvalid(f"unknown exchange type '{type}'")
