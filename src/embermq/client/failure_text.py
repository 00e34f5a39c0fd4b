"""Error texts for a connection that fails or breaks: what happened, and what to do about it."""

from __future__ import annotations

import ssl

from embermq.client.address import Endpoint, Settings
from embermq.client.core.engine import HANDSHAKE, Engine
from embermq.client.errors import ClientError, ConnectionFailed, ConnectionLost

NAME_MISMATCHES = (62, 64)  # X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH


def not_connected(endpoint: Endpoint, settings: Settings, failure: OSError) -> ConnectionFailed:
    """TCP or TLS did not come about."""
    what = str(failure) or "no answer in time"
    return ConnectionFailed(f"no connection to {endpoint}: {what}; {advice(settings, failure)}")


def advice(settings: Settings, failure: OSError) -> str:
    if isinstance(failure, ssl.SSLCertVerificationError):
        if failure.verify_code in NAME_MISMATCHES:
            return (
                "connect by a name that stands in the broker's certificate, or say which one to expect with "
                "server_name_indication= in the URL (server_hostname=)"
            )
        return (
            "no authority that this machine trusts has signed the broker's certificate: name the file of the "
            "authority that did with cacertfile= in the URL"
        )
    if settings.tls is not None and isinstance(failure, ssl.SSLError | ConnectionResetError):
        return "does that port speak TLS? If not, use amqp://"
    return "is a broker running there, and is the port right?"


def broken(engine: Engine, endpoint: Endpoint | None, settings: Settings, why: object) -> ClientError:
    """The connection ended without a word."""
    if engine.state != HANDSHAKE:
        return ConnectionLost(f"the connection to {endpoint} broke: {why}")
    hint = (
        "the port may be one for TLS, amqps://"
        if settings.tls is None
        else "the broker may want a certificate of yours that it trusts, certfile= and keyfile= in the URL"
    )
    return ConnectionFailed(f"{endpoint} hung up before it had let us in: {why}; {hint}")
