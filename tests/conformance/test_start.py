"""connection.start, start-ok and the SASL exchange (001, 1.4.2.1 to 1.4.2.4)."""

from collections.abc import Callable
from typing import Any

from pamqp import commands as spec

from tests.conformance.rules import rabbitmq_differs, rule
from tests.support.raw_client import RawClient, long_string, short_string, table

Connect = Callable[..., RawClient]

SILENT_END = rule(
    "002",
    "2.2.4",
    "negotiation/silent-close",
    "An error before connection.open closes the socket without sending any further data",
)
REFUSED = (
    "ACCESS_REFUSED - Login was refused using authentication mechanism {}. "
    "For details see the broker logfile."
)


def all_end_silently(connect: Connect, provocations: dict[str, Callable[[RawClient], None]]) -> None:
    """Each provocation, made after connection.start, ends its connection without another frame.

    They run side by side, because a broker may pause before it closes (002, 4.10.2).
    """
    clients = []
    for name, provoke in provocations.items():
        client = connect(handshake=False)
        client.open_protocol()
        provoke(client)
        clients.append((name, client))
    for name, client in clients:
        try:
            client.expect_eof()
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from error


def amqplain(*fields: tuple[str, str]) -> bytes:
    """AMQPLAIN's response: a field table without its length."""
    return table(*((name, b"S" + long_string(value)) for name, value in fields))[4:]


def send_start_ok(
    client: RawClient, mechanism: str, response: bytes, properties: bytes | None = None
) -> None:
    """start-ok with a response that need not be text."""
    fields = (table() if properties is None else properties) + short_string(mechanism)
    client.send_method(0, 10, 11, fields + long_string(response) + short_string("en_US"))


@rule(
    "001",
    "1.4.2.1.1",
    "connection.start.version",
    "start names the protocol version that the server proposes",
)
def test_start_proposes_0_9(raw: RawClient) -> None:
    start = raw.open_protocol()
    assert (start.version_major, start.version_minor) == (0, 9)


@rule(
    "001",
    "1.4.2.1.3",
    "connection.start.server-properties/required-fields",
    "The server tells product, version, platform, copyright and information",
    "SHOULD",
)
def test_server_properties(raw: RawClient) -> None:
    properties: Any = raw.open_protocol().server_properties
    for name in ("product", "version", "platform", "copyright", "information"):
        assert isinstance(properties.get(name), str), f"{name} is {properties.get(name)!r}"
        assert properties[name]


@rule("004", "extensions", "capabilities", "server-properties tell the extensions that clients look for")
def test_server_capabilities(raw: RawClient) -> None:
    capabilities: Any = raw.open_protocol().server_properties["capabilities"]
    for name in (
        "publisher_confirms",
        "exchange_exchange_bindings",
        "basic.nack",
        "consumer_cancel_notify",
        "connection.blocked",
        "authentication_failure_close",
        "per_consumer_qos",
    ):
        assert capabilities.get(name) is True, name


@rule("001", "1.4.2.1.4", "connection.start.mechanisms", "The supported SASL mechanisms, delimited by spaces")
def test_mechanisms(raw: RawClient) -> None:
    assert "PLAIN" in raw.open_protocol().mechanisms.split(" ")


@rule("001", "1.4.2.1.5", "connection.start.locales", "The supported locales, delimited by spaces")
@rule("001", "1.4.2.1.5", "connection.start.locales/required-support", "The server supports at least en_US")
def test_locales(raw: RawClient) -> None:
    assert "en_US" in raw.open_protocol().locales.split(" ")


@rule("001", "1.4.2.2.1", "connection.start-ok.client-properties", "Any table of client properties is taken")
def test_client_properties_of_all_kinds(raw: RawClient) -> None:
    nested = {"list": [1, "two", {"three": 3.0}], "none": None, "yes": True, "bytes": bytearray(b"\x00\xff")}
    raw.login(properties={"product": "x" * 300, "nested": nested, "capabilities": {"unheard.of": True}})


@rule(
    "001", "1.4.2.2.2", "connection.start-ok.mechanism/plain", "The client selects a mechanism; PLAIN logs in"
)
@rule(
    "002", "2.2.4", "connection-lifecycle/plain", "With PLAIN the response carries the user and the password"
)
def test_plain_login(raw: RawClient) -> None:
    raw.login(mechanism="PLAIN", response="\0guest\0guest")


@rule(
    "001",
    "1.4.2.2.3",
    "connection.start-ok.response/amqplain",
    "RabbitMQ's AMQPLAIN, a table of LOGIN and PASSWORD",
)
def test_amqplain_login(raw: RawClient) -> None:
    raw.open_protocol()
    send_start_ok(raw, "AMQPLAIN", amqplain(("LOGIN", "guest"), ("PASSWORD", "guest")))
    raw.expect(spec.Connection.Tune)


@SILENT_END
@rule(
    "001", "1.4.2.2.2", "connection.start-ok.mechanism/validate", "The mechanism must be one of those offered"
)
def test_mechanisms_that_were_not_offered(connect: Connect) -> None:
    all_end_silently(
        connect,
        {
            "unknown": lambda client: client.start_ok(mechanism="X-UNHEARD-OF"),
            "empty": lambda client: client.start_ok(mechanism=""),
            "lower case": lambda client: client.start_ok(mechanism="plain"),
            "two": lambda client: client.start_ok(mechanism="PLAIN AMQPLAIN"),
        },
    )


@rule(
    "001",
    "1.4.2.2.4",
    "connection.start-ok.locale/lenient",
    "An unknown locale does no harm (texts stay en_US)",
    "MAY",
)
def test_unknown_locale(raw: RawClient) -> None:
    raw.login(locale="xx_XX")


@rule(
    "001",
    "1.4.2.4",
    "connection.secure-ok/refused",
    "A wrong password is refused: 403 for clients that can hear it",
)
@rule(
    "004",
    "extensions",
    "authentication_failure_close",
    "Clients with this capability get connection.close 403 at once",
)
def test_wrong_password_with_the_capability(connect: Connect) -> None:
    for user, password in (
        ("guest", "wrong"),
        ("nobody", "guest"),
        ("", ""),
        ("guest", ""),
        ("GUEST", "guest"),
    ):
        client = connect(handshake=False)
        client.open_protocol()
        client.start_ok(user, password)
        client.expect_close_and_eof(403, REFUSED.format("PLAIN"))


@rule(
    "004", "extensions", "authentication_failure_close/amqplain", "The text names the mechanism that was used"
)
def test_wrong_amqplain_password_with_the_capability(raw: RawClient) -> None:
    raw.open_protocol()
    capable = table(("capabilities", b"F" + table(("authentication_failure_close", b"t\x01"))))
    send_start_ok(raw, "AMQPLAIN", amqplain(("LOGIN", "guest"), ("PASSWORD", "wrong")), capable)
    raw.expect_close_and_eof(403, REFUSED.format("AMQPLAIN"))


@SILENT_END
@rule(
    "001",
    "1.4.2.4",
    "connection.secure-ok/refused-silently",
    "A wrong password ends the connection without a word",
)
def test_wrong_password_without_the_capability(connect: Connect) -> None:
    wrong = amqplain(("LOGIN", "guest"), ("PASSWORD", "wrong"))
    all_end_silently(
        connect,
        {
            "password": lambda client: client.start_ok(password="wrong", properties={}),
            "user": lambda client: client.start_ok(user="nobody", properties={}),
            "AMQPLAIN": lambda client: send_start_ok(client, "AMQPLAIN", wrong),
        },
    )


@SILENT_END
@rule(
    "001",
    "1.4.2.2.3",
    "connection.start-ok.response/validate",
    "A response that the mechanism cannot read is refused",
)
def test_malformed_responses(connect: Connect) -> None:
    all_end_silently(
        connect,
        {
            "PLAIN, no zero octet": lambda client: client.start_ok(response="guest guest"),
            "PLAIN, one part": lambda client: client.start_ok(response="\0guest"),
            "AMQPLAIN, no table": lambda client: send_start_ok(client, "AMQPLAIN", b"\xffgarbage"),
            "AMQPLAIN, no password": lambda client: send_start_ok(
                client, "AMQPLAIN", amqplain(("LOGIN", "guest"))
            ),
        },
    )


SECURE = rule(
    "001",
    "1.4.2.3",
    "connection.secure",
    "The server challenges the client until it knows enough to authenticate it",
)
NO_CHALLENGE = "takes an empty response for a wrong one; a client that wants to be asked is turned away"


@rabbitmq_differs(NO_CHALLENGE)
@SECURE
@rule(
    "001",
    "1.4.2.4",
    "connection.secure-ok",
    "secure-ok passes the mechanism's response; the right one leads to tune",
)
@rule(
    "002",
    "2.2.4",
    "connection-lifecycle/secure",
    "The server sends a challenge (secure), the client answers (secure-ok)",
)
def test_login_by_challenge(raw: RawClient) -> None:
    raw.open_protocol()
    raw.start_ok(response="")
    raw.expect(spec.Connection.Secure)
    raw.send(spec.Connection.SecureOk("\0guest\0guest"))
    raw.expect(spec.Connection.Tune)


@rabbitmq_differs(NO_CHALLENGE)
@SECURE
def test_wrong_answer_to_the_challenge(raw: RawClient) -> None:
    raw.open_protocol()
    raw.start_ok(response="")
    raw.expect(spec.Connection.Secure)
    raw.send(spec.Connection.SecureOk("\0guest\0wrong"))
    raw.expect_close_and_eof(403, REFUSED.format("PLAIN"))


@SILENT_END
@rule("002", "2.2.4", "negotiation/order-start", "After start only start-ok is expected")
def test_other_methods_instead_of_start_ok(connect: Connect) -> None:
    all_end_silently(
        connect,
        {
            "tune-ok": lambda client: client.send(spec.Connection.TuneOk(0, 131072, 0)),
            "open": lambda client: client.send(spec.Connection.Open()),
            "secure-ok": lambda client: client.send(spec.Connection.SecureOk("x")),
            "channel.open": lambda client: client.send(spec.Channel.Open(), 1),
            "queue.declare": lambda client: client.send(spec.Queue.Declare(queue="q"), 1),
            "a server's method": lambda client: client.send(spec.Connection.Tune(0, 0, 0)),
        },
    )


@SILENT_END
@rule(
    "002",
    "4.10.2",
    "negotiation/malformed",
    "Syntax errors and excessive data during negotiation end the connection",
)
def test_malformed_frames_instead_of_start_ok(connect: Connect) -> None:
    all_end_silently(
        connect,
        {
            "truncated start-ok": lambda client: client.send_method(0, 10, 11, b"\x00\x00"),
            "no method number": lambda client: client.send_frame(1, 0, b"\x00\x0a"),
            "wrong frame-end": lambda client: client.send_frame(1, 0, b"\x00\x0a\x00\x0b", end=0),
            "unknown frame type": lambda client: client.send_frame(99, 0, b"\x00\x0a\x00\x0b"),
            "gigantic frame": lambda client: client.send_bytes(b"\x01\x00\x00\xff\xff\xff\xff"),
            "megabyte frame": lambda client: client.send_frame(1, 0, b"x" * 100, size=1 << 20),
            "unknown class": lambda client: client.send_method(0, 61440, 1),
        },
    )
