"""Looking over AMQP: x-describe and x-browse, which take nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from embermq.client import (
    Channel,
    ChannelClosed,
    Connection,
    ConsumerCancelled,
    Message,
    NotFound,
    PreconditionFailed,
    Properties,
    connect,
)
from embermq.testing import EmbeddedBroker


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(persistent=True) as made:
        yield made


@pytest.fixture
def connection(broker: EmbeddedBroker) -> Iterator[Connection]:
    with broker.vhost() as vhost, connect(broker.url_of(vhost), reconnect=False) as made:
        yield made


@pytest.fixture
def channel(connection: Connection) -> Channel:
    return connection.channel(prefetch=100)


def everything(channel: Channel, queue: str, no_ack: bool = True, **arguments: object) -> list[Message]:
    named = {"x-" + name.replace("_", "-"): value for name, value in arguments.items()}
    consumer = channel.consume(queue, no_ack=no_ack, arguments=named)
    found: list[Message] = []
    try:
        while batch := consumer.fetch(1000, 10):
            found += batch
            if not no_ack:
                consumer.ack(batch)
    except ConsumerCancelled:
        return found
    raise AssertionError("nobody said that this was all")


def test_a_queue_describes_itself(channel: Channel) -> None:
    channel.queue_declare("q", durable=True)
    channel.publish_batch([b"one", b"three"], "q")
    (told,) = everything(channel, "q", describe=True)
    facts = json.loads(told.body)
    assert told.properties.content_type == "application/json"
    assert (facts["type"], facts["messages_ready"], facts["consumers"], facts["bytes"]) == (
        "classic",
        2,
        0,
        8,
    )
    assert channel.queue_declare("q", passive=True).message_count == 2


def test_a_stream_tells_its_offsets(channel: Channel) -> None:
    channel.queue_declare("s", durable=True, arguments={"x-queue-type": "stream"})
    channel.publish_batch([b"%d" % number for number in range(10)], "s")
    facts = json.loads(everything(channel, "s", describe=True, describe_time=0)[0].body)
    assert (facts["type"], facts["first_offset"], facts["next_offset"], facts["offset_at"]) == (
        "stream",
        0,
        10,
        0,
    )
    later = json.loads(everything(channel, "s", describe=True, describe_time=2**45)[0].body)
    assert later["offset_at"] == 10


def test_browsing_shows_all_and_takes_nothing(channel: Channel) -> None:
    channel.queue_declare("q")
    bodies = [b"%d" % number for number in range(3000)]
    channel.publish_batch(bodies, "q")
    for no_ack in (True, False):
        assert [message.body for message in everything(channel, "q", no_ack, browse=True)] == bodies
    message = channel.get("q")
    assert message is not None and message.body == b"0" and not message.redelivered
    assert message.message_count == 2999


def test_the_last_messages_come_before_the_end(channel: Channel) -> None:
    channel.queue_declare("q")
    channel.publish_batch([b"%d" % number for number in range(3000)], "q")
    consumer = channel.consume("q", no_ack=True, arguments={"x-browse": True})
    assert len(consumer.fetch_all(5000, 10)) == 3000
    with pytest.raises(ConsumerCancelled):
        consumer.fetch_all(1, 10)


def test_browsing_past_the_window(channel: Channel) -> None:
    channel.queue_declare("deep", durable=True)
    bodies = [b"%d" % number for number in range(40_000)]
    channel.publish_batch(bodies, "deep")
    assert [message.body for message in everything(channel, "deep", browse=True)] == bodies


def test_what_comes_later_is_not_shown_and_what_goes_is_left_out(
    channel: Channel, connection: Connection
) -> None:
    channel.queue_declare("q")
    channel.publish_batch([b"%d" % number for number in range(2000)], "q")
    looking = connection.channel(prefetch=10)
    consumer = looking.consume("q", arguments={"x-browse": True})
    first = consumer.fetch_all(10, 10)
    assert len(first) == 10
    channel.queue_purge("q")
    channel.publish(b"late", "q")
    found = list(first)
    with pytest.raises(ConsumerCancelled):
        while True:
            consumer.ack(found[-1:])
            found += consumer.fetch(1000, 10)
    assert b"late" not in [message.body for message in found] and len(found) < 2000


def test_a_queue_deleted_meanwhile(channel: Channel, connection: Connection) -> None:
    channel.queue_declare("q")
    channel.publish_batch([b"%d" % number for number in range(2000)], "q")
    consumer = connection.channel(prefetch=10).consume("q", arguments={"x-browse": True})
    batch = consumer.fetch_all(10, 10)
    channel.queue_delete("q")
    consumer.ack(batch)
    with pytest.raises(ConsumerCancelled):
        while True:
            consumer.ack(consumer.fetch(10, 10))


def test_an_empty_queue_ends_at_once(channel: Channel) -> None:
    channel.queue_declare("q")
    assert everything(channel, "q", browse=True) == []


@pytest.mark.parametrize("arguments", [{"x-describe": True}, {"x-browse": True}])
def test_a_queue_that_is_not_there(connection: Connection, arguments: dict[str, object]) -> None:
    with pytest.raises(NotFound):
        connection.channel().consume("nobody", arguments=arguments)


def test_what_cannot_be(channel: Channel, connection: Connection) -> None:
    channel.queue_declare("s", durable=True, arguments={"x-queue-type": "stream"})
    with pytest.raises(PreconditionFailed, match="x-browse is for queues"):
        connection.channel().consume("s", no_ack=True, arguments={"x-browse": True})
    for wrong in (-1, "now", True):
        with pytest.raises(PreconditionFailed, match="x-describe-time"):
            connection.channel().consume("s", arguments={"x-describe": True, "x-describe-time": wrong})


def test_the_permission_to_read_is_needed(broker: EmbeddedBroker, connection: Connection) -> None:
    import urllib.request

    connection.channel().queue_declare("q")
    vhost = connection.settings.virtual_host

    def put(path: str, body: dict[str, object]) -> None:
        request = urllib.request.Request(
            f"{broker.http_url}/api/{path}", json.dumps(body).encode(), method="PUT"
        )
        request.add_header("authorization", "Basic Z3Vlc3Q6Z3Vlc3Q=")
        request.add_header("content-type", "application/json")
        urllib.request.urlopen(request).close()

    put("users/eve", {"password": "eve", "tags": ""})
    put(f"permissions/{vhost}/eve", {"configure": ".*", "write": ".*", "read": "^$"})
    url = broker.url_of(vhost).replace("guest:guest", "eve:eve")
    for name in ("x-describe", "x-browse"):
        with connect(url, reconnect=False) as other, pytest.raises(ChannelClosed, match="ACCESS_REFUSED"):
            other.channel().consume("q", arguments={name: True})


def listed(channel: Channel, pattern: str) -> list[tuple[str, str]]:
    found = [json.loads(told.body)["queues"] for told in everything(channel, "", list_queues=pattern)]
    return sorted((queue["name"], queue["type"]) for part in found for queue in part)


def test_queues_are_listed_by_a_pattern_of_their_whole_names(channel: Channel) -> None:
    for name in ("orders.eu", "orders.us", "my orders.eu"):
        channel.queue_declare(name)
    channel.queue_declare("orders.all", durable=True, arguments={"x-queue-type": "stream"})
    assert listed(channel, r"orders\..*") == [
        ("orders.all", "stream"),
        ("orders.eu", "classic"),
        ("orders.us", "classic"),
    ]
    assert listed(channel, "orders") == []
    assert listed(channel, "a|orders.eu") == [("orders.eu", "classic")]


def test_thousands_of_queues_are_listed_in_several_messages(channel: Channel) -> None:
    names = [f"one of many {number}" for number in range(1500)]
    for name in names:
        channel.queue_declare(name, durable=False)
    assert [name for name, _ in listed(channel, "one of many .*")] == sorted(names)


def test_queues_of_others_are_not_listed(broker: EmbeddedBroker, channel: Channel) -> None:
    vhost = broker.url  # the default one
    with connect(vhost) as one, connect(vhost) as other, one.channel() as mine, other.channel() as theirs:
        mine.queue_declare("exclusive here", exclusive=True)
        assert listed(mine, "exclusive here") == [("exclusive here", "classic")]
        assert listed(theirs, "exclusive here") == []


def test_a_pattern_that_is_none_is_refused(channel: Channel) -> None:
    with pytest.raises(PreconditionFailed, match="x-list-queues"):
        everything(channel, "", list_queues="(")


def test_the_bindings_of_a_queue(channel: Channel) -> None:
    channel.exchange_declare("listing", "topic")
    channel.queue_declare("bound")
    assert everything(channel, "bound", list_bindings=True) == []
    channel.queue_bind("bound", "listing", "a.#", arguments={"why": "x"})
    channel.queue_bind("bound", "amq.direct", "b")
    (answer,) = everything(channel, "bound", list_bindings=True)
    assert json.loads(answer.body)["bindings"] == [
        {"exchange": "listing", "routing_key": "a.#", "arguments": ["why"]},
        {"exchange": "amq.direct", "routing_key": "b", "arguments": []},
    ]
    keys = [f"key {number}" for number in range(1500)]
    for key in keys:
        channel.queue_bind("bound", "amq.direct", key)
    answers = everything(channel, "bound", list_bindings=True)
    found = [one["routing_key"] for answer in answers for one in json.loads(answer.body)["bindings"]]
    assert found == ["a.#", "b", *keys]


def coloured(channel: Channel, queue: str, *bodies: str) -> None:
    for body in bodies:
        properties = Properties(headers={"colour": body.split()[0]})
        channel.publish(body.encode(), queue, properties=properties)


def test_browsing_shows_what_is_selected(channel: Channel) -> None:
    channel.queue_declare("q")
    coloured(channel, "q", *(f"{'red' if number % 1000 == 0 else 'blue'} {number}" for number in range(5000)))
    found = everything(channel, "q", browse=True, selector="colour = 'red'")
    assert [message.body for message in found] == [b"red %d" % number for number in range(0, 5000, 1000)]
    assert channel.queue_declare("q", passive=True).message_count == 5000


@pytest.mark.parametrize(
    "arguments", [{"x-browse": True, "x-browse-follow": True}, {"x-filter-no-consume": True}]
)
def test_browsing_may_follow_the_queue(channel: Channel, arguments: dict[str, object]) -> None:
    channel.queue_declare("q")
    coloured(channel, "q", "red 1", "blue 2")
    consumer = channel.consume("q", selector="colour = 'red'", no_ack=True, arguments=arguments)
    assert consumer.fetch(10, 60)[0].body == b"red 1"
    coloured(channel, "q", "blue 3", "red 4")
    assert consumer.fetch(10, 60)[0].body == b"red 4"
    message = channel.get("q")
    assert message is not None and not message.redelivered and message.message_count == 3


def test_qpids_browser_may_end_at_the_tail(channel: Channel) -> None:
    channel.queue_declare("q")
    channel.publish_batch([b"1", b"2"], "q")
    consumer = channel.consume(
        "q", no_ack=True, arguments={"x-filter-no-consume": True, "x-filter-auto-close": True}
    )
    assert [message.body for message in consumer.fetch(10, 60)] == [b"1", b"2"]
    with pytest.raises(ConsumerCancelled):
        consumer.fetch(10, 60)


def test_browsing_begins_at_a_position(channel: Channel) -> None:
    channel.queue_declare("q")
    channel.publish_batch([b"%d" % number for number in range(10)], "q")
    assert [m.body for m in everything(channel, "q", browse=True, browse_position="low-8")] == [
        b"7",
        b"8",
        b"9",
    ]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"x-browse-position": "somewhere"}, "'somewhere' is no position in a queue"),
        ({"x-browse-position": "7-1"}, "queue 'q' has no position 7-1"),
        ({"x-browse-follow": 5}, "x-browse-follow"),
        ({"x-selector": "colour ="}, "invalid selector"),
    ],
)
def test_a_browser_that_asks_for_nonsense(channel: Channel, arguments: dict[str, object], text: str) -> None:
    channel.queue_declare("q")
    with pytest.raises(PreconditionFailed, match=text):
        channel.consume("q", arguments={"x-browse": True, **arguments})


def test_a_stream_is_filtered_by_a_selector(channel: Channel) -> None:
    channel.queue_declare("s", durable=True, arguments={"x-queue-type": "stream"})
    coloured(channel, "s", *(f"{'red' if number % 100 == 0 else 'blue'} {number}" for number in range(1000)))
    consumer = channel.consume(
        "s",
        selector="colour = 'red' AND amqp.size > 5 AND amqp.routing_key = 's'",
        prefetch=100,
        arguments={"x-stream-offset": "first"},
    )
    found: list[bytes] = []
    while len(found) < 9:
        batch = consumer.fetch(100, 60)
        found += [message.body for message in batch]
    assert found == [b"red %d" % number for number in range(100, 1000, 100)]
