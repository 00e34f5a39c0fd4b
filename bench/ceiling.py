"""How fast is the load generator itself? Nothing near this number can be measured with it."""

from __future__ import annotations

import os
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.build import load_module
from bench.frames import deliver, method, publication


def _pair() -> tuple[socket.socket, socket.socket]:
    """The two ends of a TCP connection over loopback, as a broker would have."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        far, _ = listener.accept()
    return near, far


def _in_child(work: Callable[[], object], unwanted: list[socket.socket]) -> int:
    child = os.fork()
    if child == 0:
        for end in unwanted:
            end.close()
        try:
            work()
        finally:
            os._exit(0)
    return child


@contextmanager
def confirming_server(folder: Path | None, room: int) -> Iterator[socket.socket]:
    """A connection to a server that does nothing but write what comes, sync it and confirm: as much as the
    disk, the loopback interface and the wake-ups of two processes leave to a broker."""
    kernel = load_module("echo")
    publisher, publisher_far = _pair()
    with tempfile.NamedTemporaryFile(dir=folder, prefix="confirms-") as file:
        descriptor = os.open(file.name, os.O_RDWR | os.O_DSYNC)
        answer = method(60, 80, bytes(9))
        child = _in_child(
            lambda: kernel.confirm_synced(publisher_far.fileno(), descriptor, room, answer), [publisher]
        )
        publisher_far.close()
        os.close(descriptor)
        try:
            yield publisher
        finally:
            publisher.close()
            os.waitpid(child, 0)


def relayed_ns(seconds: float, rate: float = 0.0) -> list[int]:
    """Latencies through a server that only reads, delivers and confirms: what wake-ups, loopback and the
    generator take by themselves. Without a rate one message is in flight, without confirms and acks."""
    module, kernel = load_module("load"), load_module("echo")
    block, body_at = publication("", "bench", 16, persistent=False)
    publisher, publisher_far = _pair()
    consumer, consumer_far = _pair()
    for end in (publisher, publisher_far, consumer, consumer_far):
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    confirm = method(60, 80, bytes(8) + b"\x01") if rate else b""

    def play_broker() -> object:
        fds = publisher_far.fileno(), consumer_far.fileno()
        return kernel.relay(*fds, deliver(0, "", "bench"), confirm)

    child = _in_child(play_broker, [publisher, consumer])
    publisher_far.close()
    consumer_far.close()
    load = module.Load(1, 1, 1, int((rate or 100_000) * seconds * 1.2) + 1000, 0 if rate else 1)
    window = 20_000 if rate else 0
    load.publish_on(load.add_link(publisher.fileno()), [block], [body_at], [1], window=window, rate=rate)
    load.consume_on(load.add_link(consumer.fileno()), 10 if rate else 0)
    load.run(seconds)
    publisher.close()
    consumer.close()
    os.waitpid(child, 0)
    latencies: list[int] = load.latencies_ns()
    return latencies


def measure(seconds: float, body_bytes: int = 16, *, echo: bool = True) -> dict[str, float]:
    """Messages per second through an echo (or, without echo, into a sink), and the CPU they cost us."""
    module, kernel = load_module("load"), load_module("echo")
    block, body_at = publication("", "bench", body_bytes, persistent=False)
    publisher, publisher_far = _pair()
    consumer, consumer_far = _pair()

    def play_broker() -> object:
        if echo:
            return kernel.echo(publisher_far.fileno(), consumer_far.fileno(), deliver(0, "", "bench"))
        return kernel.swallow(publisher_far.fileno())

    child = _in_child(play_broker, [publisher, consumer])
    publisher_far.close()
    consumer_far.close()
    load = module.Load()
    load.publish_on(load.add_link(publisher.fileno()), [block], [body_at], [1 if echo else 0])
    load.consume_on(load.add_link(consumer.fileno()))
    began_cpu = time.process_time()
    result = load.run(seconds)
    cpu = time.process_time() - began_cpu
    publisher.close()
    consumer.close()
    os.waitpid(child, 0)
    return {
        "messages_per_second": result["published"] / result["seconds"],
        "load_us_per_message": cpu / result["published"] * 1e6,
    }
