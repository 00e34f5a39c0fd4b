"""kombu over py-amqp: simple queues, serializers, retries, mixins, and the parts that Celery stands on."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator

import kombu
import pytest
from amqp.exceptions import AccessRefused, NotAllowed
from kombu import Consumer, Exchange, Producer, Queue
from kombu.common import drain_consumer, itermessages, maybe_declare
from kombu.mixins import ConsumerProducerMixin
from kombu.pidbox import Mailbox
from kombu.pools import connections, producers

from tools.brokers import Broker

Names = Callable[[str], str]


@pytest.fixture
def connection(broker: Broker) -> Iterator[kombu.Connection]:
    with kombu.Connection(broker.url, transport_options={"confirm_publish": True}) as connection:
        yield connection


def test_wrong_password_is_not_retried(broker: Broker) -> None:
    with kombu.Connection(broker.url.replace("guest:guest", "guest:wrong")) as connection:
        with pytest.raises(AccessRefused, match="ACCESS_REFUSED - Login was refused"):
            connection.ensure_connection(max_retries=1, interval_start=0)


def test_unknown_vhost(broker: Broker) -> None:
    with kombu.Connection(broker.url.replace("%2f", "nowhere")) as connection:
        with pytest.raises(NotAllowed, match="vhost nowhere not found"):
            connection.ensure_connection(max_retries=1, interval_start=0)


def test_failover_to_the_next_broker(broker: Broker, queue_name: str) -> None:
    with socket.socket() as closed_door:
        closed_door.bind(("127.0.0.1", 0))
        dead = f"amqp://guest:guest@127.0.0.1:{closed_door.getsockname()[1]}//"
        with kombu.Connection([dead, broker.url]) as connection:
            connection.ensure_connection(max_retries=3, interval_start=0, interval_step=0)
            with connection.SimpleBuffer(queue_name) as queue:
                queue.put("arrived")
                assert queue.get(timeout=60).payload == "arrived"


def test_heartbeat_check(broker: Broker) -> None:
    with kombu.Connection(broker.url, heartbeat=1) as connection:
        transport_connection = connection.connection
        assert connection.supports_heartbeats
        assert connection.get_heartbeat_interval() == 1
        over = time.monotonic() + 3.5
        while time.monotonic() < over:
            connection.heartbeat_check(rate=2)  # raises when the broker's beats stay away
            with contextlib.suppress(TimeoutError):
                transport_connection.blocking_read(timeout=0.2)
        assert connection.connected


@pytest.mark.parametrize(
    ("serializer", "compression"), [("json", None), ("pickle", "zlib"), ("json", "bzip2")]
)
def test_simple_queue(
    connection: kombu.Connection, queue_name: str, serializer: str, compression: str
) -> None:
    with connection.SimpleQueue(
        queue_name, serializer=serializer, compression=compression, accept=[serializer]
    ) as queue:
        assert queue.qsize() == 0
        for number in range(3):
            queue.put({"number": number}, headers={"n": number})
        assert queue.qsize() == 3
        message = queue.get(timeout=60)
        assert message.payload == {"number": 0}
        assert message.headers["n"] == 0
        message.requeue()
        numbers = []
        for _ in range(3):
            message = queue.get(timeout=60)
            numbers.append(message.payload["number"])
            message.ack()
        assert sorted(numbers) == [0, 1, 2]
        with pytest.raises(queue.Empty):
            queue.get_nowait()
    Queue(queue_name)(connection.channel()).delete()


def test_simple_queue_clear(connection: kombu.Connection, queue_name: str) -> None:
    with connection.SimpleBuffer(queue_name) as queue:
        for _ in range(5):
            queue.put("x")
        assert len(queue) == 5
        assert queue.clear() == 5
        assert queue.qsize() == 0


def test_produce_and_consume_by_topic(connection: kombu.Connection, fresh_name: Names) -> None:
    exchange = Exchange(fresh_name("exchange"), "topic", durable=False, auto_delete=True)
    queue = Queue(fresh_name("queue"), exchange, routing_key="video.#", auto_delete=True, durable=False)
    producer = Producer(connection, exchange)
    received: list[object] = []

    def on_message(body: object, message: kombu.Message) -> None:
        received.append((body, message.delivery_info["routing_key"]))
        message.ack()

    with Consumer(connection, queue, callbacks=[on_message], prefetch_count=2):
        for key in ("video.avi", "audio.mp3", "video"):
            producer.publish({"key": key}, routing_key=key)
        while len(received) < 2:
            connection.drain_events(timeout=60)
    assert received == [({"key": "video.avi"}, "video.avi"), ({"key": "video"}, "video")]


def test_reject_and_requeue(connection: kombu.Connection, queue_name: str) -> None:
    queue = Queue(queue_name, auto_delete=True, durable=False)
    channel = connection.channel()
    bound = queue(channel)
    bound.declare()
    Producer(channel).publish("twice", routing_key=queue_name)
    first = bound.get()
    first.requeue()
    second = bound.get()
    assert (second.payload, second.delivery_info["redelivered"]) == ("twice", True)
    second.reject()
    assert bound.get() is None
    bound.delete()


def test_itermessages(connection: kombu.Connection, queue_name: str) -> None:
    queue = Queue(queue_name, auto_delete=True, durable=False)
    channel = connection.channel()
    maybe_declare(queue, channel)
    producer = Producer(channel)
    for number in range(5):
        producer.publish(number, routing_key=queue_name)
    got = [body for body, _ in itermessages(connection, channel, queue, limit=5, timeout=60, no_ack=True)]
    assert got == [0, 1, 2, 3, 4]


def test_exchange_to_exchange(connection: kombu.Connection, fresh_name: Names) -> None:
    channel = connection.channel()
    source = Exchange(fresh_name("source"), "direct", durable=False)(channel)
    target = Exchange(fresh_name("target"), "fanout", durable=False)(channel)
    source.declare()
    target.declare()
    target.bind_to(source.name, routing_key="k")
    queue = Queue(fresh_name("queue"), target, exclusive=True, durable=False)(channel)
    queue.declare()
    Producer(channel, source).publish("through", routing_key="k")
    assert queue.get(no_ack=True).payload == "through"
    target.unbind_from(source.name, routing_key="k")
    source.delete()
    target.delete()


def test_pools(broker: Broker, queue_name: str) -> None:
    template = kombu.Connection(broker.url)
    with connections[template].acquire(block=True) as connection:
        maybe_declare(Queue(queue_name, durable=False), connection.default_channel)
    for number in range(10):
        with producers[template].acquire(block=True) as producer:
            producer.publish(number, routing_key=queue_name)
    with connections[template].acquire(block=True) as connection:
        queue = Queue(queue_name, durable=False)(connection.default_channel)
        while queue.queue_declare(passive=True).message_count < 10:  # published unconfirmed, elsewhere
            pass
        assert [queue.get(no_ack=True).payload for _ in range(10)] == list(range(10))
        queue.delete()
    kombu.pools.reset()


class EchoService(ConsumerProducerMixin):
    """Answers every request at its reply_to, as kombu's documentation shows it."""

    def __init__(self, connection: kombu.Connection, queue: Queue) -> None:
        self.connection = connection
        self.queue = queue
        self.ready = threading.Event()

    def get_consumers(self, consumer_class: type[Consumer], channel: object) -> list[Consumer]:
        return [consumer_class(queues=[self.queue], on_message=self.on_request, prefetch_count=1)]

    def on_consume_ready(self, *_: object, **__: object) -> None:
        self.ready.set()

    def on_request(self, message: kombu.Message) -> None:
        self.producer.publish(
            {"echo": message.payload},
            routing_key=message.properties["reply_to"],
            correlation_id=message.properties["correlation_id"],
            retry=True,
        )
        message.ack()
        if message.payload == "end":
            self.should_stop = True


def test_consumer_producer_mixin_as_rpc(broker: Broker, fresh_name: Names) -> None:
    requests = Queue(fresh_name("requests"), auto_delete=True, durable=False)
    service = EchoService(kombu.Connection(broker.url), requests)
    thread = threading.Thread(target=service.run, daemon=True)
    thread.start()
    assert service.ready.wait(60)
    with kombu.Connection(broker.url) as connection:
        replies = Queue(fresh_name("replies"), exclusive=True, durable=False)
        answers: dict[str, object] = {}

        def on_reply(message: kombu.Message) -> None:
            answers[message.properties["correlation_id"]] = message.payload

        consumer = Consumer(connection, replies, on_message=on_reply, no_ack=True)
        producer = Producer(connection)
        for text in ("a", "b", "end"):
            producer.publish(text, routing_key=requests.name, reply_to=replies.name, correlation_id=text)
        for _ in drain_consumer(consumer, limit=3, timeout=60):
            pass
    thread.join()
    service.connection.release()
    assert answers == {text: {"echo": text} for text in ("a", "b", "end")}


def test_mailbox_reaches_every_node(broker: Broker, fresh_name: Names) -> None:
    """The pidbox of Celery's remote control: a fanout out, a direct exchange back."""
    mailbox = Mailbox(fresh_name("box"), type="fanout")
    with kombu.Connection(broker.url) as serving, kombu.Connection(broker.url) as asking:
        nodes = [
            mailbox(serving).Node(name, handlers={"ping": lambda _state, **_: "pong"})
            for name in ("one", "two")
        ]
        consumers = [node.listen(channel=serving.channel()) for node in nodes]
        replies: list[object] = []
        asker = threading.Thread(
            target=lambda: replies.extend(mailbox(asking)._broadcast("ping", reply=True, limit=2, timeout=60))
        )
        asker.start()
        while asker.is_alive():
            try:
                serving.drain_events(timeout=0.1)
            except TimeoutError:
                continue
        asker.join()
        for consumer in consumers:
            consumer.cancel()
    assert sorted(replies, key=str) == [{"one": "pong"}, {"two": "pong"}]


def test_publish_retries_until_the_broker_is_back(mortal_broker: Broker, queue_name: str) -> None:
    with kombu.Connection(mortal_broker.url, transport_options={"confirm_publish": True}) as connection:
        queue = Queue(queue_name, durable=True)
        maybe_declare(queue, connection.channel())
        producer = connection.Producer()
        producer.publish("before", routing_key=queue_name, delivery_mode=2)
        mortal_broker.kill()
        failures: list[BaseException] = []

        def on_failure(error: BaseException, _interval: float) -> None:
            failures.append(error)
            if len(failures) == 1:
                mortal_broker.start()

        producer.publish(
            "after",
            routing_key=queue_name,
            retry=True,
            retry_policy={"max_retries": 50, "interval_start": 0, "interval_max": 0.2, "errback": on_failure},
        )
        assert failures
        with connection.SimpleQueue(queue_name) as simple:
            got = {simple.get(timeout=60).payload for _ in range(2)}
        assert got == {"before", "after"}
        queue(connection.channel()).delete()
