"""How long somebody else has to wait while one client asks for something huge.

A bystander, a process of its own, sends one small message at a time through a queue of its own and waits for
it. Meanwhile the broker deletes an exchange with 25,000 bindings, or loses a connection with 5,000 exclusive
queues. The longest of the bystander's round trips is how long the broker's loop was held; what is printed as
idle is the longest before anything was asked for.
"""

from __future__ import annotations

import argparse
import base64
import http.client
import json
import socket
import struct
import time
from collections.abc import Callable
from typing import Any

from bench.frames import consume, frame, long, method, publication, short, table
from bench.session import DURABLE, EXCLUSIVE, Session
from bench.standing_by import Act, beside
from tools.brokers import Broker, EmberBroker, RabbitBroker

BINDINGS = 25_000
CHANNELS = 2047
BATCH = 500
WEIGHING_S = 2.0  # goes on after the answer

KEPT_OPEN: list[Session] = []  # until the process ends


# -- what is asked for


def api(broker: Broker, verb: str, path: str, body: object = None) -> None:
    connection = http.client.HTTPConnection(broker.host, broker.http_port, timeout=60)
    token = base64.b64encode(b"guest:guest").decode()
    data = None if body is None else json.dumps(body)
    connection.request(verb, "/api" + path, data, {"Authorization": f"Basic {token}"})
    response = connection.getresponse()
    text = response.read()
    assert response.status < 300, (response.status, text)
    connection.close()


def nothing(broker: Broker) -> Act:
    return lambda: time.sleep(1)


def declare_exchange(session: Session, name: str, kind: str, flags: int) -> None:
    names = b"\x00\x00" + short(name) + short(kind)
    session.call(method(40, 10, names + bytes([flags]) + long(b"")), (40, 11))


def bound(broker: Broker, flags: int) -> Session:
    session = Session(broker.host, broker.port)
    declare_exchange(session, "huge", "direct", flags)
    session.declare_queue("huge", durable=bool(flags))
    session.bind("huge", [("huge", f"key.{number}") for number in range(BINDINGS)])
    return session


def exchange_deleted(broker: Broker, flags: int = DURABLE) -> Act:
    session = bound(broker, flags)
    return lambda: session.delete_exchange("huge")


def transient_exchange_deleted(broker: Broker) -> Act:
    return exchange_deleted(broker, 0)


def queue_deleted(broker: Broker, flags: int = DURABLE) -> Act:
    session = bound(broker, flags)
    return lambda: session.delete_queues(["huge"])


def transient_queue_deleted(broker: Broker) -> Act:
    return queue_deleted(broker, 0)


def exclusive_queues(broker: Broker, count: int = 5000) -> Act:
    session = Session(broker.host, broker.port)
    requests = []
    for number in range(count):
        names = b"\x00\x00" + short(f"mine-{number}")
        requests.append(method(50, 10, names + bytes([EXCLUSIVE]) + long(b"")))
    session.call_all(requests, (50, 11))

    def act() -> None:
        session.socket.shutdown(socket.SHUT_RDWR)  # the bystander has a copy of it
        with Session(broker.host, broker.port) as other:
            while True:
                time.sleep(0.01)
                if not queue_exists(other, "mine-4999") and not queue_exists(other, "mine-0"):
                    return

    return act


def queue_exists(session: Session, name: str) -> bool:
    """Without an error when it does not: by a message that must find it."""
    session.socket.sendall(
        method(60, 40, b"\x00\x00" + short("") + short(name) + b"\x01")
        + frame(2, 1, struct.pack(">HHQH", 60, 0, 0, 0))
        + method(60, 10, bytes(7))
    )
    found = True
    while True:
        _, _, payload = session.read_raw()
        if payload[:4] == struct.pack(">HH", 60, 50):
            found = False
        if payload[:4] == struct.pack(">HH", 60, 11):
            return found


def fill(session: Session, queue: str, count: int, *, persistent: bool, body_bytes: int = 16) -> None:
    message, _ = publication("", queue, body_bytes, persistent=persistent)
    for _ in range(count // BATCH):
        session.socket.sendall(message * BATCH)
    while session.depth(queue) < count // BATCH * BATCH:
        time.sleep(0.05)


def weighed(broker: Broker, count: int = 1_000_000) -> Act:
    """A limit in bytes for a queue of which a start has read nothing yet."""
    with Session(broker.host, broker.port) as session:
        session.declare_queue("heavy", durable=True)
        fill(session, "heavy", count, persistent=True, body_bytes=100)
    broker.restart()
    body = {"pattern": "^heavy$", "definition": {"max-length-bytes": 10**12}, "apply-to": "queues"}

    def act() -> None:
        api(broker, "PUT", "/policies/%2F/weigh", body)
        time.sleep(WEIGHING_S)

    return act


def recovered(broker: Broker, count: int = 1_000_000, requeue: bool = False) -> Act:
    session = Session(broker.host, broker.port)
    session.declare_queue("taken")
    fill(session, "taken", count, persistent=False)
    session.call(consume("taken", 0, no_ack=False), (60, 21))
    receive(session, count)

    def act() -> None:
        session.socket.sendall(method(60, 110, bytes([requeue])))
        receive(session, count)

    return act


def name_taken_again(broker: Broker) -> Act:
    """While the bindings of its last bearer go."""
    session, other = bound(broker, DURABLE), Session(broker.host, broker.port)

    def act() -> None:
        session.socket.sendall(method(40, 20, b"\x00\x00" + short("huge") + b"\x00"))
        declare_exchange(other, "huge", "direct", DURABLE)

    return act


def consumer_comes_back(broker: Broker, count: int = 1_000_000) -> Act:
    """It is alone with its queue, was lost with all that it had been sent, and is there again at once."""
    session = Session(broker.host, broker.port)
    session.declare_queue("taken")
    fill(session, "taken", count, persistent=False)
    alone = method(60, 20, b"\x00\x00" + short("taken") + short("000000") + bytes([4]) + table({}))
    session.call(alone, (60, 21))
    receive(session, count)

    def act() -> None:
        session.socket.shutdown(socket.SHUT_RDWR)  # the bystander has a copy of it
        again = Session(broker.host, broker.port)
        KEPT_OPEN.append(again)
        again.call(alone, (60, 21))

    return act


def receive(session: Session, count: int) -> None:
    """So many deliveries, of which only the number of bytes is looked at."""
    kind, _, payload = session.read_raw()
    while kind != 1 or payload[:4] != struct.pack(">HH", 60, 60):
        kind, _, payload = session.read_raw()
    message, _ = publication("", "taken", 16, persistent=False)
    publish = method(60, 40, b"\x00\x00" + short("") + short("taken") + b"\x00")
    delivery = len(payload) + 8
    left = count * (delivery + len(message) - len(publish)) - delivery - session.forget_input()
    while left > 0:
        left -= len(session.socket.recv(1 << 20))


def open_channels(session: Session) -> None:
    session.call_all([method(20, 10, b"\x00", channel=number) for number in range(2, CHANNELS + 1)], (20, 11))


def many_channels(broker: Broker, per_channel: int = 20) -> Session:
    session = Session(broker.host, broker.port)
    open_channels(session)
    session.declare_queue("shared")
    fill(session, "shared", CHANNELS * per_channel // BATCH * BATCH, persistent=False)
    requests = []
    for number in range(1, CHANNELS + 1):
        session.socket.sendall(method(60, 10, struct.pack(">IHB", 0, per_channel, 0), channel=number))
        tag = short(f"{number:06d}")
        arguments = b"\x00\x00" + short("shared") + tag + b"\x00" + table({})
        requests.append(method(60, 20, arguments, channel=number))
    for request in requests:
        session.socket.sendall(request)
    seen = 0
    while seen < CHANNELS:
        kind, _, payload = session.read_raw()
        seen += kind == 1 and payload[:4] == struct.pack(">HH", 60, 21)
    return session


def channels_closed(broker: Broker) -> Act:
    session = many_channels(broker)
    return session.close


def many_consumers(broker: Broker, queues: int, count: int = 10_000) -> Session:
    session = Session(broker.host, broker.port)
    session.declare_queues([f"consumed-{number}" for number in range(queues)])
    session.call_all(
        [consume(f"consumed-{slot % queues}", slot, no_ack=True) for slot in range(count)], (60, 21)
    )
    return session


def consumers_leave(broker: Broker) -> Act:
    session = many_consumers(broker, 10_000)
    return session.close


def consumers_of_one_queue_leave(broker: Broker) -> Act:
    session = many_consumers(broker, 1)
    return session.close


def channel_with_consumers_closed(broker: Broker) -> Act:
    session = many_consumers(broker, 1)

    def act() -> None:
        session.call(method(20, 40, struct.pack(">H", 200) + short("bye") + bytes(4)), (20, 41))

    return act


def consumed_queue_deleted(broker: Broker) -> Act:
    KEPT_OPEN.append(many_consumers(broker, 1))
    session = Session(broker.host, broker.port)
    return lambda: session.delete_queues(["consumed-0"])


def vhost_deleted(broker: Broker, count: int = 10_000) -> Act:
    api(broker, "PUT", "/vhosts/huge")
    api(broker, "POST", "/definitions/huge", {"queues": queues(count), "exchanges": [], "bindings": []})
    return lambda: api(broker, "DELETE", "/vhosts/huge")


def vhost_with_bindings_deleted(broker: Broker) -> Act:
    api(broker, "PUT", "/vhosts/huge")
    bindings = [
        {
            "source": "amq.topic",
            "destination": f"queue-{number % 1000}",
            "destination_type": "queue",
            "routing_key": f"key.{number}",
            "arguments": {},
        }
        for number in range(BINDINGS)
    ]
    api(broker, "POST", "/definitions/huge", {"queues": queues(1000), "bindings": bindings})
    return lambda: api(broker, "DELETE", "/vhosts/huge")


def vhost_with_exchanges_deleted(broker: Broker) -> Act:
    api(broker, "PUT", "/vhosts/huge")
    exchanges = [
        {"name": f"x-{n}", "type": "topic", "durable": True, "auto_delete": False, "internal": False}
        for n in range(10_000)
    ]
    api(broker, "POST", "/definitions/huge", {"exchanges": exchanges})
    return lambda: api(broker, "DELETE", "/vhosts/huge")


def queues(count: int) -> list[dict[str, Any]]:
    return [
        {"name": f"queue-{number}", "durable": True, "auto_delete": False, "arguments": {}}
        for number in range(count)
    ]


def definitions_imported(broker: Broker) -> Act:
    api(broker, "PUT", "/vhosts/huge")
    document = {"queues": queues(10_000)}
    return lambda: api(broker, "POST", "/definitions/huge", document)


def user_deleted(broker: Broker, count: int = 500) -> Act:
    api(broker, "PUT", "/users/busy", {"password": "busy", "tags": ""})
    api(broker, "PUT", "/permissions/%2F/busy", {"configure": ".*", "write": ".*", "read": ".*"})
    KEPT_OPEN.extend(Session(broker.host, broker.port, user="busy") for _ in range(count))
    return lambda: api(broker, "DELETE", "/users/busy")


CASES: dict[str, Callable[[Broker], Act]] = {
    act.__name__: act
    for act in (
        nothing,
        exchange_deleted,
        transient_exchange_deleted,
        queue_deleted,
        transient_queue_deleted,
        exclusive_queues,
        weighed,
        recovered,
        name_taken_again,
        consumer_comes_back,
        channels_closed,
        consumers_leave,
        consumers_of_one_queue_leave,
        channel_with_consumers_closed,
        consumed_queue_deleted,
        vhost_deleted,
        vhost_with_bindings_deleted,
        vhost_with_exchanges_deleted,
        definitions_imported,
        user_deleted,
    )
}


BROKERS: dict[str, Callable[[], Broker]] = {
    "embermq": lambda: EmberBroker(log_level="warning"),
    "rabbitmq": lambda: RabbitBroker(management=True),
}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench bystander", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--against", default="embermq", choices=BROKERS)
    options = parser.parse_args(arguments)
    for name in options.names or CASES:
        with BROKERS[options.against]() as broker:
            waits = beside(broker, CASES[name](broker))
        during, before = max(waits.during_s) * 1000, max(waits.before_s) * 1000
        took = f"all of it took {waits.took_s * 1000:,.0f} ms"
        print(f"{name:32} {during:8.1f} ms (idle {before:.1f} ms; {took})", flush=True)
    return 0
