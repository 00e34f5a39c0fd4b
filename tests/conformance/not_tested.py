"""Rules of the connection, channel and transport half that have no test, each with the reason.

The report reads `NOT_TESTED` of every module in this folder whose name starts with `not_tested`.
"""

from tests.conformance.rules import NotTested

_CLIENT = "A rule for clients; a server cannot break it."
_INSIDE = "Not observable from outside."

NOT_TESTED: list[NotTested] = [
    # -- decided against ------------------------------------------------------------------------------------
    NotTested(
        "002",
        "4.2.3",
        "frame/close-without-data",
        "After an undefined frame type or a wrong frame-end the connection is closed without sending "
        "any further data",
        "RabbitMQ tells the client why (connection.close 501) and clients print it; silence would "
        "leave their users "
        "guessing. frame-end/invalid and frame-type/unknown accept both.",
        decided_against=True,
    ),
    NotTested(
        "002",
        "4.2.3",
        "frame-size/eight-octets",
        "A frame even one octet larger than agreed is refused",
        "Up to eight octets more are forgiven, as by RabbitMQ: some clients do not count a frame's overhead. "
        "frame-size/limit tests what is larger, frame-size/forgiven what is not.",
        decided_against=True,
    ),
    NotTested(
        "002",
        "2.2.4",
        "negotiation/silent-close-after-tune-ok",
        "Until open-ok errors close the socket without sending any further data",
        "After tune-ok, and for a refused login of a client that announces "
        "authentication_failure_close, clients "
        "expect connection.close with the reason (an unknown virtual host: 530). Before that the "
        "rule is kept "
        "(negotiation/silent-close).",
        decided_against=True,
    ),
    NotTested(
        "002",
        "4.2.5.5",
        "field-table/grammar-letters",
        "The grammar's letters: U for 16-bit, L for 64-bit integers, s for short strings, l unsigned",
        "RabbitMQ and every client send s, l and so on with other meanings; EmberMQ speaks like them "
        "(field-table/types).",
        decided_against=True,
    ),
    NotTested(
        "000",
        "4.2.5.5",
        "amq_wlp_table_01",
        "Field names are validated; an invalid one is answered with 503 (syntax error)",
        "Real names break the rule: every x-argument holds a dash, headers hold dots, spaces and "
        "more than 128 "
        "characters. RabbitMQ accepts any name.",
        decided_against=True,
    ),
    NotTested(
        "002",
        "4.2.5.3",
        "short-string/no-zero",
        "Short strings may not contain binary zero octets",
        "RabbitMQ accepts them, and refusing them would break routing keys that are binary.",
        decided_against=True,
    ),
    NotTested(
        "001",
        "1.2",
        "invalid-path",
        "402: an unknown virtual host",
        "RabbitMQ answers 530 (NOT_ALLOWED - vhost ... not found), which clients look for. Tested as "
        "connection.open.virtual-host.",
        decided_against=True,
    ),
    NotTested(
        "001",
        "1.2",
        "content-too-large",
        "311: a content larger than the server accepts",
        "RabbitMQ answers 406 with both sizes. Tested as content/too-large.",
        decided_against=True,
    ),
    NotTested(
        "001",
        "1.4.2.2.4",
        "connection.start-ok.locale",
        "The locale must be one of those that the server offered",
        "RabbitMQ ignores the field and clients send what they like. Tested as "
        "connection.start-ok.locale/lenient.",
        decided_against=True,
    ),
    NotTested(
        "002",
        "4.10.2",
        "clients/blocked",
        "The server marks or blocks clients that cause repeated errors",
        "The pause after every refused handshake (negotiation/pause) slows attackers down; banning "
        "addresses is the "
        "firewall's work, fed by the log lines of errors/logged.",
        decided_against=True,
    ),
    NotTested(
        "000",
        "4.2.8",
        "amq_wlp_trace_01",
        "A trace frame on another channel than 0 is answered with 501",
        "0-9-1 has no trace frames; type 7 is an undefined type (frame-type/unknown).",
        decided_against=True,
    ),
    NotTested(
        "000",
        "4.2.8",
        "amq_wlp_trace_02",
        "A trace frame without a handler is discarded without an error",
        "0-9-1 has no trace frames; type 7 is an undefined type (frame-type/unknown).",
        decided_against=True,
    ),
    NotTested(
        "002",
        "4.2.6",
        "content/abort-by-method",
        "A sender may abort a content by sending a method, without closing the channel",
        "RabbitMQ answers 505 and the rule content/sequence of the same section asks for nothing in "
        "between; no "
        "client aborts contents.",
        decided_against=True,
    ),
    # -- what no test can show ------------------------------------------------------------------------------
    NotTested(
        "001",
        "1.4.2.1",
        "connection.start/client-support",
        "A client that cannot handle the proposed version closes the socket without sending any further data",
        _CLIENT,
    ),
    NotTested(
        "002",
        "4.2.2",
        "protocol-header/client-retry",
        "A client may try its highest version first and connect again with the one that the server names",
        _CLIENT + " What it needs from the server is amq_wlp_header_04.",
    ),
    NotTested(
        "001",
        "1.5.2.3",
        "channel.flow/by-the-server",
        "A peer may use channel.flow to throttle incoming content",
        "EmberMQ throttles publishers by TCP and connection.blocked, like RabbitMQ; it never sends "
        "channel.flow.",
    ),
    NotTested(
        "001",
        "1.5.2.3",
        "channel.flow/ban",
        "A peer that asked for a pause may disconnect one that does not respect it",
        "EmberMQ never asks clients to pause.",
    ),
    NotTested(
        "001",
        "1.2",
        "resource-error",
        "506: the server lacks resources",
        "It takes a server that runs out of something, which a test cannot arrange without harming "
        "the machine.",
    ),
    NotTested(
        "001",
        "1.2",
        "internal-error",
        "541: an internal error",
        "Only a bug leads to it; many tests of malformed data would fail on a 541.",
    ),
    NotTested("001", "1.2", "reply-success", "200 is reserved", "Never sent by a server."),
    NotTested(
        "002",
        "4.1",
        "port",
        "AMQP's port is 5672",
        "The default of the command line; tests must run on free ports.",
    ),
    NotTested(
        "002",
        "4.2.5.1",
        "integers/alignment",
        "Implementations must not assume that integers in a frame are aligned",
        _INSIDE + " Every test with odd lengths would fail otherwise.",
    ),
    NotTested(
        "002",
        "4.2.4",
        "class-ids",
        "Classes 0x0001 to 0xEFFF belong to the standard, 0xF000 to 0xFFFF to extensions",
        "A convention for authors of protocols.",
    ),
    NotTested(
        "002",
        "4.2.7",
        "heartbeat/client-start",
        "The client starts to send heartbeats after tune and to monitor after open",
        _CLIENT,
    ),
    NotTested(
        "002", "1.4.1", "names-in-sources", "Implementations use the constants' and fields' names", _INSIDE
    ),
    NotTested(
        "002",
        "4.9",
        "limits",
        "65535 channels, classes and methods; strings and frames of 32-bit, contents of 64-bit size",
        "The width of the fields; the limits that the server sets are tested (connection.tune, "
        "content/too-large).",
    ),
    NotTested(
        "000",
        "4.2.10",
        "request-response",
        "Request and response frames (types 9 and 10)",
        "Marked as work in progress there, gone in 0-9-1: types that are not defined (frame-type/unknown).",
    ),
]
