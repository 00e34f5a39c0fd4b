"""A broker with TLS, for the tests of what happens over it."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path
from typing import Any

import pika

from tests.support.certificates import Authority
from tools.brokers import EmberBroker
from tools.ports import free_port


class Secured:
    """A broker with TLS beside its plain ports, and the authority behind its certificate."""

    def __init__(self, directory: Path, **more: str) -> None:
        self.authority = Authority(directory)
        self.certificate = self.authority.issue("server")
        self.amqps, self.https = free_port(), free_port()
        settings = {
            "CERTIFICATE": str(self.certificate),
            "AMQP_PORT": str(self.amqps),
            "HTTP_PORT": str(self.https),
            "AUTHORITIES": str(self.authority.file),
            "CLIENT_CERTIFICATES": "optional",
            **more,
        }
        self.broker = EmberBroker(env={f"EMBERMQ_TLS_{name}": value for name, value in settings.items()})

    def context(self, client: str = "", **more: Any) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.authority.file))
        if client:
            context.load_cert_chain(self.authority.directory / f"{client}.pem")
        for name, value in more.items():
            setattr(context, name, value)
        return context

    def connect(self, context: ssl.SSLContext, credentials: Any = None) -> pika.BlockingConnection:
        return pika.BlockingConnection(
            pika.ConnectionParameters(
                "127.0.0.1",
                self.amqps,
                credentials=credentials or pika.PlainCredentials("guest", "guest"),
                ssl_options=pika.SSLOptions(context, "localhost"),
            )
        )

    def serial(self) -> str:
        """Of the certificate that the broker shows now."""
        with socket.create_connection(("127.0.0.1", self.amqps), timeout=60) as plain:
            with self.context().wrap_socket(plain, server_hostname="localhost") as secured:
                certificate = secured.getpeercert()
                assert certificate is not None
                return str(certificate["serialNumber"])
