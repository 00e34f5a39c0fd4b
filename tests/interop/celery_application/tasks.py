"""The Celery application under test; a worker loads it in a process of its own.

Where a test must know that a task is running, or decide when it ends, the task calls the test back on a
TCP port ("stage door"): no test sleeps and hopes.
"""

from __future__ import annotations

import datetime as dt
import itertools
import os
import socket
import sys

from celery import Celery, Task, signals
from kombu import Queue


def make_app(broker_url: str, queue: str, prefetch: int = 4) -> Celery:
    """The same configuration for the worker's and for the test's side."""
    app = Celery("interop", broker=broker_url, backend="rpc://", set_as_current=False)
    app.conf.update(
        task_default_queue=queue,
        task_queues=[Queue(queue, routing_key=queue, queue_arguments={"x-max-priority": 10})],
        task_default_routing_key=queue,
        broker_connection_retry_on_startup=True,
        worker_prefetch_multiplier=prefetch,
        worker_cancel_long_running_tasks_on_connection_loss=False,
    )
    return app


app = make_app(
    os.environ.get("INTEROP_CELERY_BROKER", "amqp://"),
    os.environ.get("INTEROP_CELERY_QUEUE", "interop.celery"),
    int(os.environ.get("INTEROP_CELERY_PREFETCH", "4")),
)
_runs = itertools.count()


@signals.worker_ready.connect
def announce(**_: object) -> None:
    # Celery turns sys.stdout into a logger; the test reads the real one.
    print("READY", flush=True, file=sys.__stdout__)


@app.task(name="add")
def add(x: int, y: int) -> int:
    return x + y


@app.task(name="total")
def total(numbers: list[int]) -> int:
    return sum(numbers)


@app.task(name="size")
def size(blob: str) -> int:
    return len(blob)


@app.task(name="fail")
def fail() -> None:
    raise KeyError("on purpose")


@app.task(name="succeed_at_third_try", bind=True, max_retries=3)
def succeed_at_third_try(self: Task) -> int:
    if self.request.retries < 2:
        raise self.retry(countdown=0.05)
    return int(self.request.retries)


@app.task(name="seconds_after_eta", bind=True)
def seconds_after_eta(self: Task) -> float:
    due = dt.datetime.fromisoformat(self.request.eta)
    return (dt.datetime.now(dt.UTC) - due).total_seconds()


@app.task(name="late_nth_run", acks_late=True)
def late_nth_run() -> int:
    """How many tasks of this kind the process had run before."""
    return next(_runs)


@app.task(name="knock", bind=True, acks_late=True)
def knock(self: Task, stage_door: int) -> dict[str, object]:
    """Tell the test that we run, and go on when it says so."""
    with socket.create_connection(("127.0.0.1", stage_door)) as line:
        line.sendall(b"running")
        assert line.recv(16) == b"go on"
    return {"redelivered": self.request.delivery_info["redelivered"], "worker": self.request.hostname}
