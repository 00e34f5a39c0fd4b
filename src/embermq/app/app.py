"""The composition root: a broker, its data directory and its listeners, on one event loop."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import time
from functools import partial

from embermq import __version__
from embermq.amqp.channel.consumer_timeout import DeliveryTimeouts
from embermq.amqp.connection.connection import Connection
from embermq.amqp.connection.state import Pause
from embermq.amqp.connection.transport import Transport
from embermq.amqp.session_list import Sessions
from embermq.app.auth_setup import Aside, apply_settings, tokens_of
from embermq.app.jwks import IssuerKeys
from embermq.app.limits import defaults_of, limits_of, room_of
from embermq.app.listeners import AMQP, HTTP, Listeners
from embermq.app.plugins import disable_types, load_plugins
from embermq.app.predeclare import declare, declare_first_user, first_user
from embermq.app.services import ServiceRunner
from embermq.app.systemd import inherited_sockets
from embermq.broker.broker import Broker
from embermq.broker.definitions import DefinitionStore, DiskDefinitionStore
from embermq.broker.restore import restore
from embermq.broker.security.user import User
from embermq.broker.service import Services
from embermq.broker.storage import Storage
from embermq.broker.turn import Turn
from embermq.build import build_info
from embermq.config import Config
from embermq.http.server.management import Management
from embermq.net.login_admission import Place, network_of
from embermq.net.proxy_protocol import Peer
from embermq.net.resource_monitor import ResourceMonitor
from embermq.net.server import Server
from embermq.net.tls import certificate_end, date_problem
from embermq.store.data_directory import DataDirectory
from embermq.store.sync.committer import SyncMode

log = logging.getLogger("embermq")

CLOSE_TIMEOUT_S = 3.0
SETTLE_S = 5.0  # how long a stop waits for the disk; a full one may never answer


class App:
    """A broker with its data directory and its listeners, on the running loop.

    One `in_memory` has no data directory: durable means until it stops. Only streams need files: the first
    one has the directory made, and it goes when the broker stops.
    """

    def __init__(self, config: Config, in_memory: bool = False) -> None:
        self.config = config
        self.loop = asyncio.get_running_loop()
        self.failure: asyncio.Future[None] = self.loop.create_future()
        self.turn = Turn(self.loop.call_soon)
        self.data: DataDirectory | None = None
        self.in_memory = in_memory
        tokens = tokens_of(config.oauth)  # first: whatever is wrong with keys must not leave files open
        self.resource_monitor: ResourceMonitor | None = None
        services = Services()
        load_plugins(config.plugins.modules, services)  # before the exchanges of their types are restored
        disable_types(config.plugins.disabled)
        if in_memory:
            self.broker = Broker(
                self.turn,
                DefinitionStore(),
                None,
                self.loop.call_later,
                defaults_of(config),
                partial(self.open_storage, "os"),
            )
            self.create_defaults(self.broker)
        else:
            self.broker = self.open_data()
        self.broker.services.known |= services.known
        self.aside = Aside(self.loop)
        self.broker.authenticator.run_aside = self.aside.run
        self.broker.authenticator.call_later = self.loop.call_later
        self.issuer_keys = IssuerKeys(self.loop)
        apply_settings(self.broker.authenticator, self.issuer_keys, config, tokens)
        self.limits = limits_of(config)
        self.server = Server(self.connect, self.limits, self.loop)
        self.server.handshake_s = config.limits.handshake_s
        self.server.take_s = config.limits.tcp_user_timeout_s
        admission = self.server.admission
        admission.set_room(room_of(config))
        self.server.certificate_kind = config.auth.certificate_name
        alarms = self.broker.alarms
        alarms.on_clear = self.server.alarm_cleared
        self.sessions = Sessions(
            lambda: [protocol.connection for protocol in self.server.protocols],
            self.loop.time,
        )
        timeouts = DeliveryTimeouts(self.sessions.opened, self.broker.defaults)
        self.server.on_tick.append(lambda: timeouts.tick(int(self.loop.time() * 1000)))
        self.management = Management(self.broker, self.sessions, self.loop)
        self.management.server.network_of = network_of
        self.services = ServiceRunner(self.broker.services, self.management.api, self.loop)
        self.broker.services.user_of = self.user_of
        self.management.context.build = build_info().mode
        self.management.context.certificate_end = self.certificate_end
        self.management.context.connections_max = lambda: self.config.limits.connections
        self.management.measure(
            publishers_held=lambda: self.sessions.paused_count(Pause.THROTTLE),
            publishers_blocked=lambda: self.sessions.paused_count(Pause.ALARM),
            connections_unauthenticated=lambda: admission.taken_count,
            connections_unauthenticated_waiting=lambda: admission.waiting_count,
            connections_unauthenticated_refused_total=lambda: admission.refused_count,
        )
        if self.broker.storage is not None:
            self.watch_resources(self.broker.storage)
        self.listeners = Listeners(self.server.arrived, self.http_arrived, self.server.admission)
        self.amqp_port = 0
        self.http_port = 0

    def user_of(self, connection_number: int) -> User | None:
        """Of an open connection."""
        for connection in self.sessions.opened():
            if connection.number == connection_number:
                return connection.user
        return None

    def http_arrived(self, peer: Peer | None, place: Place) -> asyncio.BaseProtocol:
        return self.management.server.arrived("" if peer is None else peer.host)

    def open_data(self) -> Broker:
        """The broker as its data directory remembers it."""
        storage = self.open_storage("always" if self.config.sync == "always" else "os")
        try:
            definitions = DiskDefinitionStore(storage.data.definitions, self.fail)
            broker = Broker(self.turn, definitions, storage, self.loop.call_later, defaults_of(self.config))
            if not restore(broker, definitions):
                self.create_defaults(broker)
        except BaseException:
            storage.data.close()  # an embedding program may try again
            raise
        return broker

    def open_storage(self, sync: SyncMode) -> Storage:
        self.data = DataDirectory.open(str(self.config.data_dir), self.loop.call_soon_threadsafe, sync)
        self.data.committer.sync_here(self.turn)
        return Storage(self.data, self.loop.call_later, self.fail)

    def create_defaults(self, broker: Broker) -> None:
        """`/`, and guest unless the settings name other users."""
        first = first_user(self.config.default)  # which may be wrong, so before anything is made
        with broker.definitions.together():
            broker.create_defaults(with_guest=first is None and not self.config.users)
            if first is not None:
                declare_first_user(broker, first, self.config.default.vhost)

    def watch_resources(self, storage: Storage) -> None:
        """Memory and disk raise alarms; alarms hold publishers."""
        alarms = self.broker.alarms
        self.resource_monitor = monitor = ResourceMonitor(
            str(self.config.data_dir),
            self.config.memory_high_watermark,
            self.config.disk_free_limit,
            alarms.set,
            alarms.set_tight,
        )
        monitor.check()

        def check() -> bool:
            monitor.check()
            self.listeners.check(self.config, self.loop.time())
            return False

        self.server.on_tick += [check, storage.tidy]
        self.management.measure(
            resident_memory_limit_bytes=lambda: monitor.memory_limit,
            disk_space_available_limit_bytes=lambda: monitor.disk_free_limit,
        )
        storage.on_full = lambda full: alarms.set("disk space", full, "the disk refuses writes")

    def certificate_end(self) -> float | None:
        file = self.config.tls.certificate
        return certificate_end(str(file)) if file else None

    def warn_of_certificate(self) -> None:
        file = self.config.tls.certificate
        problem = date_problem(str(file), time.time()) if file else ""
        if problem:
            log.warning("%s: clients will refuse it", problem)

    def connect(
        self, transport: Transport, number: int, peer_address: str, name: str, certificate_name: str
    ) -> Connection:
        return Connection(
            self.broker, self.turn, transport, self.limits, number, peer_address, name, certificate_name
        )

    async def start(self) -> None:
        declare(self.broker, self.config)
        await self.listeners.open(self.config, inherited_sockets(os.environ))
        self.warn_of_certificate()
        for listener in self.listeners.listeners:
            self.management.announce(listener.protocol, *listener.address)
        self.amqp_port, self.http_port = self.listeners.port(AMQP), self.listeners.port(HTTP)
        self.server.start()
        self.management.start()

    @property
    def ready_line(self) -> str:
        urls = " ".join(self.listeners.urls())
        return f"EmberMQ {__version__} ready: {urls} ({self.management.context.build})"

    def fail(self, reason: Exception) -> None:
        """The disk cannot be trusted any more: stop rather than confirm what may be lost."""
        if not self.failure.done():
            log.critical("stopping: %s", reason)
            self.failure.set_exception(reason)

    async def stop(self, patience_s: float = CLOSE_TIMEOUT_S) -> None:
        """Say goodbye, wait so long for clients to answer, write everything."""
        try:
            await self.listeners.close()
            await self.management.stop()
            await self.server.stop(patience_s=patience_s)
        except Exception:  # whatever it is, it must not keep us from writing
            log.exception("a fault of ours, in closing connections")
        self.services.close()
        self.aside.close()
        self.issuer_keys.close()
        if not self.failure.done():
            self.broker.note_stop()
        self.turn.finish()
        if self.data is not None:
            await self.settle()
            assert self.broker.storage is not None
            self.broker.storage.close()
            self.close_data(self.data)

    def close_data(self, data: DataDirectory) -> None:
        data.close()
        if self.in_memory:
            shutil.rmtree(data.layout.directory, ignore_errors=True)

    async def settle(self) -> None:
        """Let what waits for the disk come to its end: a dead letter leaves its old queue only after that."""
        safe: asyncio.Future[None] = self.loop.create_future()

        def done() -> None:
            if not safe.done():
                safe.set_result(None)

        assert self.broker.storage is not None
        self.broker.storage.when_safe(done)
        await asyncio.wait([safe, self.failure], timeout=SETTLE_S, return_when=asyncio.FIRST_COMPLETED)
        self.turn.finish()

    async def abort(self) -> None:
        """End as a killed process would: clients are not told, nothing more is written."""
        await self.listeners.close()
        await self.management.stop()
        self.server.abort()
        self.services.close()
        self.aside.close()
        self.issuer_keys.close()
        await asyncio.sleep(0)
        if self.data is not None:
            self.close_data(self.data)
