"""All listeners: AMQP and HTTP, each with and without TLS, on sockets of our own or on those that systemd
opened.

Certificates are read again when the settings are, and when their files change.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import ssl
from collections.abc import Mapping

from embermq.config import Config
from embermq.net.listener import Factory, Listener, ListenerOptions, close_all, open_sockets, set_options
from embermq.net.login_admission import LoginAdmission
from embermq.net.proxy_protocol import networks
from embermq.net.tls import TLSError, server_context

log = logging.getLogger("embermq.net")

AMQP, AMQPS, HTTP, HTTPS = "amqp", "amqp/ssl", "http", "https"  # as RabbitMQ names them
SCHEMES = {AMQP: "amqp", AMQPS: "amqps", HTTP: "http", HTTPS: "https"}
# What to do when the port is taken.
PORT_HINTS = {
    AMQP: "another port: embermq serve --amqp-port 5673 (0 picks a free one)",
    HTTP: "another port: embermq serve --http-port 15673 (0 picks a free one)",
    AMQPS: "another port: tls.amqp_port in the configuration",
    HTTPS: "another port: tls.http_port in the configuration",
}
CHECK_INTERVAL_S = 2.0


class Listeners:
    def __init__(self, amqp: Factory, http: Factory, admission: LoginAdmission) -> None:
        self.factories = {AMQP: amqp, AMQPS: amqp, HTTP: http, HTTPS: http}
        self.admission = admission
        self.listeners: list[Listener] = []
        self.files: dict[str, float] = {}  # of certificates, and when they changed
        self.checked_at = 0.0
        self.renewal: asyncio.Future[None] | None = None

    async def open(self, config: Config, inherited: Mapping[str, list[socket.socket]]) -> None:
        options = listener_options(config)  # first: bad certificates must not leave a port open
        self.files = changes(config)
        try:
            for protocol, port in wanted(config).items():
                sockets = inherited.get(protocol) or open_own(protocol, config.bind, port)
                for sock in sockets:
                    set_options(sock, config.limits.tcp_keepalive_s, config.limits.tcp_user_timeout_s)
                    listener = Listener(
                        protocol,
                        sock,
                        self.factories[protocol],
                        self.admission,
                        logs_in=protocol in (AMQP, AMQPS),
                    )
                    self.listeners.append(listener)
                    listener.accept(options[protocol])
        except BaseException:
            await self.close()
            raise

    async def renew(self, config: Config) -> None:
        """Other certificates, other proxies; TLSError leaves everything as it was."""
        options = listener_options(config)
        self.files = changes(config)
        for listener in self.listeners:
            if listener.protocol in options:
                listener.accept(options[listener.protocol])

    def check(self, config: Config, now: float) -> None:
        """At intervals: have certificate files changed?"""
        if not self.files or now - self.checked_at < CHECK_INTERVAL_S:
            return
        self.checked_at = now
        found = changes(config)
        if found != self.files:
            self.files = found
            self.renewal = asyncio.ensure_future(self.take_new_certificates(config))

    async def take_new_certificates(self, config: Config) -> None:
        try:
            await self.renew(config)
            log.info("certificates have changed and are used from now on")
        except TLSError as error:
            log.error("certificates have changed and cannot be used, the old ones stay: %s", error)

    def port(self, protocol: str) -> int:
        return next((listener.address[1] for listener in self.listeners if listener.protocol == protocol), 0)

    def urls(self) -> list[str]:
        found: dict[str, str] = {}
        for listener in self.listeners:
            host, port = listener.address
            host = f"[{host}]" if ":" in host else host
            found.setdefault(listener.protocol, f"{SCHEMES[listener.protocol]}://{host}:{port}")
        return list(found.values())

    async def close(self) -> None:
        self.admission.close()  # first: a place that becomes free is not given away any more
        listeners, self.listeners = self.listeners, []  # a renewal that comes now finds none
        await close_all(listeners)


def open_own(protocol: str, host: str, port: int) -> list[socket.socket]:
    try:
        return open_sockets(host, port)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        raise OSError(error.errno, f"{error.strerror}; {PORT_HINTS[protocol]}") from None


def wanted(config: Config) -> dict[str, int]:
    """Protocols and the ports that they are to have."""
    ports: dict[str, int] = {}
    if not config.tls.only:
        ports |= {AMQP: config.amqp_port, HTTP: config.http_port}
    if config.tls.certificate:
        ports |= {AMQPS: config.tls.amqp_port, HTTPS: config.tls.http_port}
    return ports


def listener_options(config: Config) -> dict[str, ListenerOptions]:
    trusted, handshake_s = networks(config.proxy.trusted), config.limits.handshake_s
    plain = ListenerOptions(None, trusted, handshake_s)
    found = {AMQP: plain, HTTP: plain}
    if config.tls.certificate:
        found[AMQPS] = ListenerOptions(context(config, config.tls.client_certificates), trusted, handshake_s)
        found[HTTPS] = ListenerOptions(context(config, "none"), trusted, handshake_s)
    return found


def context(config: Config, client_certificates: str) -> ssl.SSLContext:
    tls = config.tls
    return server_context(
        tls.certificate,
        tls.key,
        tls.key_password,
        tls.authorities,
        client_certificates,
        tls.version,
        tls.ciphers,
    )


def changes(config: Config) -> dict[str, float]:
    tls = config.tls
    found = {}
    for file in (tls.certificate, tls.key, tls.authorities):
        if file:
            try:
                found[file] = os.stat(file).st_mtime
            except OSError:
                found[file] = 0.0
    return found
