"""The broker: its virtual hosts and users, and what concerns all of them."""

from __future__ import annotations

import logging
from collections.abc import Callable

from embermq.broker.alarm import Alarms
from embermq.broker.counters import Counters
from embermq.broker.definitions import DefinitionStore
from embermq.broker.events import Events, name_only, vhost_created
from embermq.broker.exchange.event import add_event_exchange
from embermq.broker.interrupted import Interrupted
from embermq.broker.policy.parameter import Parameters
from embermq.broker.queue.queue import Queue
from embermq.broker.queue.template import Defaults
from embermq.broker.security.authenticator import Authenticator
from embermq.broker.security.user_store import DEFAULT_VHOST, UserStore
from embermq.broker.service import Services
from embermq.broker.storage import Storage
from embermq.broker.timers import Timers
from embermq.broker.transfer import Tasks
from embermq.broker.turn import Turn
from embermq.broker.vhost import VirtualHost
from embermq.deadline import CallLater
from embermq.store.definitions import STOPPED

log = logging.getLogger("embermq.broker")


class Broker:
    def __init__(
        self,
        turn: Turn,
        definitions: DefinitionStore | None = None,
        storage: Storage | None = None,
        call_later: CallLater | None = None,
        defaults: Defaults | None = None,
        scratch: Callable[[], Storage] | None = None,
    ) -> None:
        self.definitions = definitions or DefinitionStore()
        self.events = Events()
        self.vhosts: dict[str, VirtualHost] = {}
        self.users = UserStore(self.definitions, self.events, self.forget_routes)
        self.authenticator = Authenticator(self.users)
        self.authenticator.on_better_secret = self.users.store
        self.defaults = defaults or Defaults()
        self.defaults.templates.definitions = self.definitions
        self.turn = turn
        self.storage = storage
        self.scratch = scratch  # makes a storage for streams when everything else is in memory
        turn.storage = storage
        if call_later is not None:
            turn.timers = Timers(turn, call_later)
        self.alarms = Alarms(turn, self.events)
        self.parameters = Parameters(self.definitions, "")  # the global ones
        self.past = Counters()  # of virtual hosts that were deleted
        self.tasks = Tasks(turn)
        self.interrupted = Interrupted(turn)
        self.services = Services()

    def add_vhost(self, name: str) -> VirtualHost:
        if name not in self.vhosts:
            vhost = self.new_vhost(name)
            self.definitions.put("vhost", "", name, {})
            self.events.emit("vhost.created", vhost_created, vhost)
        return self.vhosts[name]

    def new_vhost(self, name: str) -> VirtualHost:
        vhost = VirtualHost(
            name,
            self.turn,
            self.definitions,
            None if self.scratch is not None else self.storage,
            self.events,
            self.defaults,
            self.stream_storage,
        )
        vhost.find_service = self.services.queue
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
        self.definitions.put("vhost", "", vhost.name, vhost.definition())

    def protect_vhost(self, vhost: VirtualHost, protected: bool) -> None:
        vhost.protected = protected
        self.definitions.put("vhost", "", vhost.name, vhost.definition())

    def begin_vhost_deletion(self, vhost: VirtualHost) -> None:
        """From now on no connection is admitted; should we stop before it is gone, the next start goes on
        with it."""
        if not vhost.closing:
            vhost.closing = True
            self.definitions.put("vhost", "", vhost.name, vhost.definition())

    def delete_vhost(self, vhost: VirtualHost) -> None:
        """With everything in it; its connections are closed by the caller."""
        self.begin_vhost_deletion(vhost)
        for queue in list(vhost.queues.values()):
            vhost.delete_queue(queue)
        for exchange in list(vhost.exchanges.values()):
            vhost.delete_exchange(exchange)
        vhost.binding_removal.finish_all()
        for user in self.users.values():
            self.users.revoke(user, vhost.name)
            self.users.revoke_topics(user, vhost.name)
        vhost.policies.delete_all()
        vhost.parameters.delete_all()
        vhost.queue_deletion.close()
        vhost.delays.drop()
        self.past.add(vhost.past)
        del self.vhosts[vhost.name]
        self.definitions.delete("vhost", "", vhost.name)
        self.events.emit("vhost.deleted", name_only, vhost.name)

    def create_defaults(self, with_guest: bool = True) -> None:
        """What a first start finds: virtual host `/` and user guest/guest, for this machine only."""
        with self.definitions.together():  # a start cut short between them would leave no user to log in
            self.add_vhost(DEFAULT_VHOST)
            if with_guest:
                self.users.create_guest()

    def forget_routes(self, vhost_name: str) -> None:
        """Permissions have changed: publishers remember routes that they were allowed, and must ask again."""
        vhost = self.vhosts.get(vhost_name)
        if vhost is not None:
            vhost.forget_routes()

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
        # A full disk may have taken half of a record, and the rest is not waited for.
        whole = self.storage is None or not self.storage.unwritten
        self.definitions.put(STOPPED, "", "", {"delivered": delivered, "whole": whole})

    def queues(self) -> list[Queue]:
        return [queue for vhost in self.vhosts.values() for queue in vhost.queues.values()]
