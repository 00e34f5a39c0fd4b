"""Restoring a broker at its start: definitions first, then messages from the logs.

The order matters: policies before queues, which are built with their effective arguments; leases before
messages, because those of a lease are not ready; all logs before the search for unclaimed ones.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from embermq.broker.broker import Broker
from embermq.broker.deduplication.deduplication import recall_exchanges
from embermq.broker.definitions import Body, DiskDefinitionStore, unpacked
from embermq.broker.delayed.service import KIND as DELAYED
from embermq.broker.exchange.binding import Binding, via_names, whole_paths
from embermq.broker.exchange.exchange import DELAYED_TYPE, MATCHERS, Exchange
from embermq.broker.lease.registry import restore_all as restore_leases
from embermq.broker.policy.policy import OPERATOR_POLICY, POLICY
from embermq.broker.queue import deletion
from embermq.broker.queue.classic import ClassicQueue
from embermq.broker.stream import consumer_group
from embermq.broker.vhost import VirtualHost
from embermq.store.definitions import STOPPED, Definition

TtlHistories = dict[str, list[list[int]]]  # by log, see `Level.ttl_history`

log = logging.getLogger("embermq.broker")


def restore(broker: Broker, definitions: DiskDefinitionStore) -> bool:
    """Bring back what is stored; False when nothing is."""
    stored = definitions.stored
    vhosts = stored.all("vhost")
    if not vhosts and not stored.all("user"):
        return False
    assert broker.storage is not None
    broker.storage.data.whole = any(note.body.get("whole") for note in stored.all(STOPPED))
    for definition in vhosts:
        vhost = broker.new_vhost(definition.name)
        vhost.description = definition.body.get("description", "")
        vhost.tags = tuple(definition.body.get("tags", ()))
        vhost.limits = dict(definition.body.get("limits", {}))
        vhost.default_queue_type = definition.body.get("default_queue_type", "")
        vhost.protected = definition.body.get("protected", False)
        vhost.closing = definition.body.get("closing", False)
    broker.users.restore(stored)
    for kind in (POLICY, OPERATOR_POLICY):
        for definition in stored.all(kind):
            broker.vhosts[definition.vhost].policies.restore(kind, definition.name, definition.body)
    for definition in stored.all("template"):
        broker.defaults.templates.restore(definition.name, definition.body)
    for definition in stored.all("parameter"):
        scope = broker.vhosts[definition.vhost] if definition.vhost else broker
        scope.parameters.restore(definition.body)
    for vhost in broker.vhosts.values():
        vhost.policies.changed()  # the exchanges that every virtual host has
    for definition in stored.all("exchange"):
        restore_exchange(broker, definition.vhost, definition.name, definition.body)
    ttl_histories: TtlHistories = {}
    for definition in stored.all("queue"):
        restore_queue(broker, definition.vhost, definition.name, definition.body)
        ttl_histories.update(definition.body.get("ttl_history", {}))
    restore_offsets(broker, definitions)
    restore_bindings(broker, stored.all("binding"))
    restore_messages(broker, definitions, ttl_histories)
    for vhost in [vhost for vhost in broker.vhosts.values() if vhost.closing]:
        log.warning("virtual host '%s' was being deleted, and is gone now", vhost.name)
        broker.delete_vhost(vhost)
    return True


def restore_exchange(broker: Broker, vhost_name: str, name: str, body: Body) -> None:
    vhost = broker.vhosts[vhost_name]
    exchange = vhost.exchanges[name] = Exchange(
        vhost,
        name,
        body["type"],
        durable=True,
        auto_delete=body["auto_delete"],
        internal=body["internal"],
        arguments=unpacked(body),
    )
    if exchange.type not in MATCHERS and exchange.type != DELAYED_TYPE:
        log.warning("exchange '%s' refuses all messages: its type '%s' is missing", name, exchange.type)
    vhost.policies.apply_to_exchange(exchange)


def restore_queue(broker: Broker, vhost_name: str, name: str, body: Body) -> None:
    vhost = broker.vhosts[vhost_name]
    vhost.add_queue(
        name,
        id=body["id"],
        durable=True,
        auto_delete=body["auto_delete"],
        arguments=unpacked(body),
        template=unpacked(body.get("template", {})),
    )


def restore_offsets(broker: Broker, definitions: DiskDefinitionStore) -> None:
    """Where the consumers of streams were, by their names."""
    queues = {queue.id: queue for queue in broker.queues()}
    for definition in definitions.stored.all(consumer_group.KIND):
        stream = queues.get(definition.vhost)
        if stream is None:
            definitions.note(consumer_group.KIND, definition.vhost, definition.name, None)
        else:
            stream.restore_offset(definition.name, definition.body["offset"])


def restore_bindings(broker: Broker, definitions: Iterable[Definition]) -> None:
    lost = [definition for definition in definitions if not restore_binding(broker, definition)]
    for definition in lost:
        # The broker stopped in the middle of a deletion. Others of that name must not inherit it.
        log.warning("a binding without its ends is removed: %s", definition.body)
        broker.definitions.note("binding", definition.vhost, definition.name, None)
    for definition in lost:
        finish_deletion(broker.vhosts[definition.vhost], definition.body)


def restore_binding(broker: Broker, definition: Definition) -> bool:
    """False when something is missing of what it binds."""
    vhost, body, arguments = broker.vhosts[definition.vhost], definition.body, unpacked(definition.body)
    destination = (vhost.queues if body["kind"] == "queue" else vhost.exchanges).get(body["destination"])
    names = [*via_names(arguments), body["source"]]
    if destination is None or any(name not in vhost.exchanges for name in names):
        return False
    *via, source = (vhost.exchanges[name] for name in names)
    vhost.add_binding(Binding(source, destination, body["routing_key"], arguments, tuple(via)))
    return True


def finish_deletion(vhost: VirtualHost, body: Body) -> None:
    """With an exchange goes every rule that it was part of by chained bindings (`BindingRemoval.cut_off`)."""
    destination = (vhost.queues if body["kind"] == "queue" else vhost.exchanges).get(body["destination"])
    lost = (*via_names(unpacked(body)), body["source"])
    if destination is None or len(lost) == 1:
        return
    paths = {tuple(exchange.name for exchange in b.path) for b in vhost.bindings_to(destination)}
    left = whole_paths({lost, *paths}, lambda path: path == lost)
    for binding in vhost.bindings_to(destination):
        if tuple(exchange.name for exchange in binding.path) not in left:
            vhost.remove_binding(binding)


def restore_messages(broker: Broker, definitions: DiskDefinitionStore, ttl_histories: TtlHistories) -> None:
    """Open the logs of all queues; after a crash any message may have been delivered before."""
    assert broker.storage is not None
    delivered: dict[str, int] | None = None
    for definition in definitions.stored.all(STOPPED):
        delivered = definition.body["delivered"]
    definitions.delete(STOPPED, "", "")
    restore_leases(broker.vhosts, definitions.stored)
    known: list[str] = []
    for queue in broker.queues():
        recall_exchanges(queue)
        queue.recover(delivered)
        for level in queue.levels:
            history = ttl_histories.pop(level.log_id, [])
            level.restore_ttl_history(history)
        known += [level.log_id for level in queue.levels]
        known += [] if queue.rules is None else queue.rules.log_ids()
    restore_delayed(broker, definitions)
    known += [log_id for vhost in broker.vhosts.values() for log_id in vhost.delays.schedule.log_ids()]
    known += restore_deletions(broker, definitions)
    for vhost in broker.vhosts.values():
        vhost.leases.recovered()
    # Wait: should we die before the note is gone, the next start would believe it.
    definitions.stored.all(STOPPED)
    broker.storage.data.whole = False
    broker.storage.data.sort_out(known)
    broker.storage.data.sync_everything()


def restore_delayed(broker: Broker, definitions: DiskDefinitionStore) -> None:
    taken_back: dict[str, dict[str, int]] = {name: {} for name in broker.vhosts}
    for definition in definitions.stored.all(DELAYED):
        if definition.vhost not in taken_back:
            broker.definitions.delete(DELAYED, definition.vhost, definition.name)
            continue
        taken_back[definition.vhost][definition.name] = definition.body["below"]
    for vhost in broker.vhosts.values():
        vhost.delays.recover(taken_back[vhost.name])


def restore_deletions(broker: Broker, definitions: DiskDefinitionStore) -> list[str]:
    """Queues that were deleted and not empty; the names of their logs."""
    assert broker.storage is not None
    known: list[str] = []
    there = {queue.id for queue in broker.queues()}
    for definition in definitions.stored.all(deletion.KIND):
        vhost = broker.vhosts.get(definition.vhost)
        if vhost is None or definition.name in there:
            # Its virtual host went, too; or the deletion itself has not come to the disk.
            if vhost is None:
                broker.storage.data.note_deletions([definition.name])
            definitions.note(deletion.KIND, definition.vhost, definition.name, None)
        else:
            body = definition.body
            queue = ClassicQueue(
                vhost,
                body["queue"],
                broker.turn,
                durable=True,
                arguments=unpacked(body),
                storage=broker.storage,
                id=definition.name,
            )
            known += vhost.queue_deletion.restore(queue)
    return known
