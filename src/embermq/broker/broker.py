"""The broker: its virtual hosts and users, and what concerns all of them."""

from __future__ import annotations

import logging
from collections.abc import Callable

from embermq.broker import definitions
from embermq.broker.alarm import Alarms
from embermq.broker.counters import Counters
from embermq.broker.deduplication.deduplication import recall_exchanges
from embermq.broker.definitions import Catalog, DiskCatalog
from embermq.broker.delayed.service import KIND as DELAYED
from embermq.broker.events import name_only, vhost_created
from embermq.broker.exchange.binding import Binding
from embermq.broker.exchange.event import add_event_exchange
from embermq.broker.exchange.exchange import Exchange
from embermq.broker.lease.registry import restore_all as restore_leases
from embermq.broker.policy.parameter import Parameters
from embermq.broker.policy.policy import OPERATOR_POLICY, POLICY
from embermq.broker.queue import deletion
from embermq.broker.queue.classic import ClassicQueue
from embermq.broker.queue.defaults import Defaults
from embermq.broker.queue.queue import Queue
from embermq.broker.security.user_store import DEFAULT_VHOST, Accounts
from embermq.broker.storage import Storage
from embermq.broker.stream import consumer_group
from embermq.broker.tasks import Tasks
from embermq.broker.timers import Timers
from embermq.broker.turn import Turn
from embermq.broker.vhost import VirtualHost
from embermq.deadline import CallLater
from embermq.store.definitions import STOPPED, Definition

log = logging.getLogger("embermq.broker")


class Broker(Accounts):
    def __init__(
        self,
        turn: Turn,
        catalog: Catalog | None = None,
        storage: Storage | None = None,
        call_later: CallLater | None = None,
        defaults: Defaults | None = None,
        scratch: Callable[[], Storage] | None = None,
    ) -> None:
        super().__init__(catalog or Catalog())
        self.defaults = defaults or Defaults()
        self.defaults.templates.catalog = self.catalog
        self.turn = turn
        self.storage = storage
        self.scratch = scratch  # makes a storage for streams when everything else is in memory
        turn.storage = storage
        if call_later is not None:
            turn.timers = Timers(turn, call_later)
        self.alarms = Alarms(turn, self.events)
        self.parameters = Parameters(self.catalog, "")  # the global ones
        self.past = Counters()  # of virtual hosts that were deleted
        self.ttl_histories: dict[str, list[list[int]]] = {}  # by log, while the broker starts
        self.tasks = Tasks(turn)

    def add_vhost(self, name: str) -> VirtualHost:
        if name not in self.vhosts:
            vhost = self.new_vhost(name)
            self.catalog.put("vhost", "", name, {})
            self.events.emit("vhost.created", vhost_created, vhost)
        return self.vhosts[name]

    def new_vhost(self, name: str) -> VirtualHost:
        vhost = VirtualHost(
            name,
            self.turn,
            self.catalog,
            None if self.scratch is not None else self.storage,
            self.events,
            self.defaults,
            self.stream_storage,
        )
        self.vhosts[name] = vhost
        if name == DEFAULT_VHOST:
            add_event_exchange(vhost)
        return vhost

    def stream_storage(self) -> Storage | None:
        """Where streams are: with everything else or, if that is in memory, in a place made for the first."""
        if self.storage is None and self.scratch is not None:
            self.storage = self.turn.storage = self.scratch()
        return self.storage

    def describe_vhost(
        self, vhost: VirtualHost, description: str, tags: tuple[str, ...], default_queue_type: str = ""
    ) -> None:
        vhost.description, vhost.tags = description, tags
        vhost.default_queue_type = default_queue_type
        self.catalog.put("vhost", "", vhost.name, definitions.vhost_body(vhost))

    def protect_vhost(self, vhost: VirtualHost, protected: bool) -> None:
        vhost.protected = protected
        self.catalog.put("vhost", "", vhost.name, definitions.vhost_body(vhost))

    def begin_vhost_deletion(self, vhost: VirtualHost) -> None:
        """From now on nobody enters; should we stop before it is gone, the next start goes on with it."""
        if not vhost.closing:
            vhost.closing = True
            self.catalog.put("vhost", "", vhost.name, definitions.vhost_body(vhost))

    def delete_vhost(self, vhost: VirtualHost) -> None:
        """With everything in it; its connections are the caller's business, who knows them."""
        self.begin_vhost_deletion(vhost)
        for queue in list(vhost.queues.values()):
            vhost.delete_queue(queue)
        for exchange in list(vhost.exchanges.values()):
            vhost.delete_exchange(exchange)
        vhost.binding_removal.finish_all()
        for user in self.users.values():
            self.revoke(user, vhost.name)
            self.revoke_topics(user, vhost.name)
        vhost.policies.delete_all()
        vhost.parameters.delete_all()
        vhost.queue_deletion.close()
        vhost.delays.drop()
        self.past.add(vhost.past)
        del self.vhosts[vhost.name]
        self.catalog.delete("vhost", "", vhost.name)
        self.events.emit("vhost.deleted", name_only, vhost.name)

    def create_defaults(self, with_guest: bool = True) -> None:
        """What a first start finds: virtual host `/` and user guest/guest, for this machine only."""
        with self.catalog.together():  # a start cut short between them would leave nobody to log in
            self.add_vhost(DEFAULT_VHOST)
            if with_guest:
                self.create_guest()

    # -- across restarts

    def restore(self, catalog: DiskCatalog) -> bool:
        """Bring back what the catalog holds; False when it is new and holds nothing."""
        stored = catalog.definitions
        vhosts = stored.all("vhost")
        if not vhosts and not stored.all("user"):
            return False
        assert self.storage is not None
        self.storage.data.whole = any(note.body.get("whole") for note in stored.all(STOPPED))
        for definition in vhosts:
            vhost = self.new_vhost(definition.name)
            vhost.description = definition.body.get("description", "")
            vhost.tags = tuple(definition.body.get("tags", ()))
            vhost.limits = dict(definition.body.get("limits", {}))
            vhost.default_queue_type = definition.body.get("default_queue_type", "")
            vhost.protected = definition.body.get("protected", False)
            vhost.closing = definition.body.get("closing", False)
        self.restore_accounts(stored)
        for kind in (POLICY, OPERATOR_POLICY):
            for definition in stored.all(kind):
                self.vhosts[definition.vhost].policies.restore(kind, definition.name, definition.body)
        for definition in stored.all("template"):
            self.defaults.templates.restore(definition.name, definition.body)
        for definition in stored.all("parameter"):
            scope = self.vhosts[definition.vhost] if definition.vhost else self
            scope.parameters.restore(definition.body)
        for vhost in self.vhosts.values():
            vhost.policies.changed()  # the exchanges that every virtual host has
        for definition in stored.all("exchange"):
            self.restore_exchange(definition.vhost, definition.name, definition.body)
        for definition in stored.all("queue"):
            self.restore_queue(definition.vhost, definition.name, definition.body)
        self.restore_offsets(catalog)
        for definition in stored.all("binding"):
            self.restore_binding(definition)
        self.restore_messages(catalog)
        for vhost in [vhost for vhost in self.vhosts.values() if vhost.closing]:
            log.warning("virtual host '%s' was being deleted, and is gone now", vhost.name)
            self.delete_vhost(vhost)
        return True

    def restore_exchange(self, vhost_name: str, name: str, body: definitions.Body) -> None:
        vhost = self.vhosts[vhost_name]
        exchange = vhost.exchanges[name] = Exchange(
            vhost,
            name,
            body["type"],
            durable=True,
            auto_delete=body["auto_delete"],
            internal=body["internal"],
            arguments=definitions.unpacked(body),
        )
        vhost.policies.apply_to_exchange(exchange)

    def restore_queue(self, vhost_name: str, name: str, body: definitions.Body) -> None:
        vhost = self.vhosts[vhost_name]
        vhost.add_queue(
            name,
            id=body["id"],
            durable=True,
            auto_delete=body["auto_delete"],
            arguments=definitions.unpacked(body),
            template=definitions.unpacked(body.get("template", {})),
        )
        self.ttl_histories.update(body.get("ttl_history", {}))

    def restore_offsets(self, catalog: DiskCatalog) -> None:
        """Where the consumers of streams were, by their names."""
        queues = {queue.id: queue for queue in self.queues()}
        for definition in catalog.definitions.all(consumer_group.KIND):
            stream = queues.get(definition.vhost)
            if stream is None:
                catalog.note(consumer_group.KIND, definition.vhost, definition.name, None)
            else:
                stream.restore_offset(definition.name, definition.body["offset"])

    def restore_binding(self, definition: Definition) -> None:
        vhost, body = self.vhosts[definition.vhost], definition.body
        things = vhost.queues if body["kind"] == "queue" else vhost.exchanges
        source = vhost.exchanges.get(body["source"])
        destination = things.get(body["destination"])
        if source is None or destination is None:
            # The broker stopped in the middle of a deletion. Others of that name must not inherit it.
            log.warning("a binding without its ends is removed: %s", body)
            self.catalog.note("binding", definition.vhost, definition.name, None)
            return
        vhost.add_binding(Binding(source, destination, body["routing_key"], definitions.unpacked(body)))

    def restore_messages(self, catalog: DiskCatalog) -> None:
        """Open the logs of all queues; after a crash any message may have been delivered before."""
        assert self.storage is not None
        delivered: dict[str, int] | None = None
        for definition in catalog.definitions.all(STOPPED):
            delivered = definition.body["delivered"]
        catalog.delete(STOPPED, "", "")
        restore_leases(self.vhosts, catalog.definitions)
        known: list[str] = []
        for queue in self.queues():
            recall_exchanges(queue)
            queue.recover(delivered)
            for level in queue.levels:
                history = self.ttl_histories.pop(level.log_id, [])
                level.restore_ttl_history(history)
            known += [level.log_id for level in queue.levels]
            known += [] if queue.rules is None else queue.rules.log_ids()
        self.restore_delayed(catalog)
        known += [log_id for vhost in self.vhosts.values() for log_id in vhost.delays.schedule.log_ids()]
        known += self.restore_departing(catalog)
        for vhost in self.vhosts.values():
            vhost.leases.recovered()
        # Wait: should we die before the note is gone, the next start would believe it.
        catalog.definitions.all(STOPPED)
        self.storage.data.whole = False
        self.storage.data.sort_out(known)
        self.storage.data.sync_everything()

    def restore_delayed(self, catalog: DiskCatalog) -> None:
        taken_back: dict[str, dict[str, int]] = {name: {} for name in self.vhosts}
        for definition in catalog.definitions.all(DELAYED):
            if definition.vhost not in taken_back:
                self.catalog.delete(DELAYED, definition.vhost, definition.name)
                continue
            taken_back[definition.vhost][definition.name] = definition.body["below"]
        for vhost in self.vhosts.values():
            vhost.delays.recover(taken_back[vhost.name])

    def restore_departing(self, catalog: DiskCatalog) -> list[str]:
        """Queues that were deleted and not empty; the names of their logs."""
        assert self.storage is not None
        known: list[str] = []
        there = {queue.id for queue in self.queues()}
        for definition in catalog.definitions.all(deletion.KIND):
            vhost = self.vhosts.get(definition.vhost)
            if vhost is None or definition.name in there:
                # Its virtual host went, too; or the deletion itself has not come to the disk.
                if vhost is None:
                    self.storage.data.note_deletions([definition.name])
                catalog.note(deletion.KIND, definition.vhost, definition.name, None)
            else:
                body = definition.body
                queue = ClassicQueue(
                    vhost,
                    body["queue"],
                    self.turn,
                    durable=True,
                    arguments=definitions.unpacked(body),
                    storage=self.storage,
                    id=definition.name,
                )
                known += vhost.queue_deletion.restore(queue)
        return known

    def note_stop(self) -> None:
        """A clean stop: remember how far each log was delivered, so that the next start need not guess."""
        for vhost in self.vhosts.values():
            vhost.queue_deletion.finish()
            vhost.dropped.tell()
        if self.turn.timers is not None:
            self.turn.timers.stop()
        delivered: dict[str, int] = {}
        for queue in self.queues():
            if queue.durable:
                for level in queue.levels:
                    delivered[level.log_id] = level.delivered_up_to
        # A full disk may have taken half of a record, and nobody waits for the rest now.
        whole = self.storage is None or not self.storage.unwritten
        self.catalog.put(STOPPED, "", "", {"delivered": delivered, "whole": whole})

    def queues(self) -> list[Queue]:
        return [queue for vhost in self.vhosts.values() for queue in vhost.queues.values()]
