"""A real Celery application: its worker is the strictest user of qos, pidbox, events and reply queues."""

from __future__ import annotations

import datetime as dt
import socket
from collections.abc import Callable

import pytest
from celery import Celery, chain, group
from celery.exceptions import TaskRevokedError

from tests.interop.celery_application.conftest import StageDoor, Worker, application, let_go_on
from tools.brokers import Broker

GET_SECONDS_MAX = 60

pytestmark = pytest.mark.timeout(180)
StartWorker = Callable[..., Worker]


def result_of(signature: object, **options: object) -> object:
    return signature.apply_async(**options).get(timeout=GET_SECONDS_MAX)


def test_task_and_result(app: Celery) -> None:
    assert result_of(app.signature("add", (2, 3))) == 5


def test_hundred_tasks_in_flight(app: Celery) -> None:
    pending = [app.send_task("add", (number, number)) for number in range(100)]
    assert [each.get(timeout=GET_SECONDS_MAX) for each in pending] == [number * 2 for number in range(100)]


def test_exception_travels_back(app: Celery) -> None:
    with pytest.raises(KeyError, match="on purpose"):
        result_of(app.signature("fail"))


def test_large_argument(app: Celery) -> None:
    assert result_of(app.signature("size", ("x" * 2_000_000,))) == 2_000_000


@pytest.mark.parametrize("compression", ["zlib", "bzip2"])
def test_compressed_message(app: Celery, compression: str) -> None:
    assert result_of(app.signature("size", ("y" * 10_000,)), compression=compression) == 10_000


def test_retry(app: Celery) -> None:
    assert result_of(app.signature("succeed_at_third_try")) == 2


def test_countdown_and_eta(app: Celery) -> None:
    assert result_of(app.signature("seconds_after_eta"), countdown=0.3) >= 0
    soon = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=0.3)
    assert result_of(app.signature("seconds_after_eta"), eta=soon) >= 0


def test_chain(app: Celery) -> None:
    assert result_of(chain(app.signature("add", (1, 2)), app.signature("add", (10,)), app=app)) == 13


def test_group(app: Celery) -> None:
    calls = group([app.signature("add", (number, 1)) for number in range(20)], app=app)
    assert result_of(calls) == list(range(1, 21))


def test_group_of_chains(app: Celery) -> None:
    calls = group(
        [
            chain(app.signature("add", (number, 1)), app.signature("add", (1,)), app=app)
            for number in range(5)
        ],
        app=app,
    )
    assert result_of(calls) == list(range(2, 7))


def test_callback_link(app: Celery, stage_door: StageDoor) -> None:
    linked = app.signature("knock", (stage_door.port,), immutable=True)
    app.send_task("add", (1, 1), link=linked)
    let_go_on(stage_door.answer())


def test_revoked_while_waiting(app: Celery, worker: Worker, stage_door: StageDoor) -> None:
    first = app.send_task("knock", (stage_door.port,))
    line = stage_door.answer()
    victim = app.send_task("add", (1, 1))
    (reply,) = app.control.broadcast(
        "revoke", {"task_id": victim.id}, destination=[worker.name], reply=True, timeout=60, limit=1
    )
    assert "ok" in reply[worker.name]
    let_go_on(line)
    assert first.get(timeout=GET_SECONDS_MAX)["worker"] == worker.name
    with pytest.raises(TaskRevokedError):
        victim.get(timeout=GET_SECONDS_MAX)


def test_revoked_and_terminated_while_running(app: Celery, stage_door: StageDoor) -> None:
    victim = app.send_task("knock", (stage_door.port,))
    with stage_door.answer() as line:
        app.control.revoke(victim.id, terminate=True, signal="SIGKILL")
        with pytest.raises(TaskRevokedError):
            victim.get(timeout=GET_SECONDS_MAX)
        assert line.recv(1) == b""  # the child that ran it is gone
    assert result_of(app.signature("add", (1, 1))) == 2


def test_remote_control(app: Celery, worker: Worker, queue_name: str) -> None:
    inspect = app.control.inspect(destination=[worker.name], timeout=60, limit=1)
    assert inspect.ping() == {worker.name: {"ok": "pong"}}
    assert "add" in inspect.registered()[worker.name]
    assert [queue["name"] for queue in inspect.active_queues()[worker.name]] == [worker.queue]
    assert inspect.stats()[worker.name]["broker"]["transport"] == "amqp"
    assert inspect.stats()[worker.name]["prefetch_count"] == 4


def test_queue_added_and_cancelled_at_run_time(app: Celery, worker: Worker, queue_name: str) -> None:
    target = {"destination": [worker.name], "reply": True, "timeout": 20, "limit": 1}
    (added,) = app.control.add_consumer(queue_name, **target)
    assert added[worker.name]["ok"] == f"add consumer {queue_name}"
    assert result_of(app.signature("add", (3, 4)), queue=queue_name) == 7
    (cancelled,) = app.control.cancel_consumer(queue_name, **target)
    assert "no longer consuming" in cancelled[worker.name]["ok"]


def test_events(app: Celery, worker: Worker) -> None:
    """The worker's heartbeats and the stages of a task come through a topic exchange."""
    seen: list[str] = []
    with app.connection_for_read() as connection:
        receiver = app.events.Receiver(connection)

        def on_event(event: dict[str, object]) -> None:
            if event["hostname"] != worker.name:
                return
            seen.append(str(event["type"]))
            if seen.count("worker-heartbeat") == 1 and seen[-1] == "worker-heartbeat":
                app.send_task("add", (1, 1), ignore_result=True)
            receiver.should_stop = "task-succeeded" in seen

        receiver.handlers["*"] = on_event
        receiver.capture(limit=None, timeout=GET_SECONDS_MAX)
    assert [event for event in seen if event.startswith("task-")] == [
        "task-received",
        "task-started",
        "task-succeeded",
    ]


def test_distant_etas_do_not_block_the_queue(
    broker: Broker, queue_name: str, start_worker: StartWorker
) -> None:
    """The worker raises its prefetch by one for every task it parks: qos must reach the running consumer."""
    start_worker(broker, queue_name, pool="threads", prefetch=1)
    with application(broker, queue_name) as app:
        for _ in range(4):
            app.send_task("add", (0, 0), countdown=3600)
        assert result_of(app.signature("add", (20, 22))) == 42


def test_priority(broker: Broker, queue_name: str, start_worker: StartWorker, stage_door: StageDoor) -> None:
    with application(broker, queue_name) as app:
        start_worker(broker, queue_name, pool="solo", prefetch=1)
        first = app.send_task("knock", (stage_door.port,))
        line = stage_door.answer()  # the only slot is taken, what follows waits in the broker
        priorities = (1, 9, 1, 9)
        pending = [app.send_task("late_nth_run", priority=priority) for priority in priorities]
        let_go_on(line)
        first.get(timeout=GET_SECONDS_MAX)
        runs = [each.get(timeout=GET_SECONDS_MAX) for each in pending]
        assert runs == [2, 0, 3, 1]


def test_killed_worker_gives_its_task_back(
    broker: Broker, queue_name: str, start_worker: StartWorker, stage_door: StageDoor
) -> None:
    with application(broker, queue_name) as app:
        doomed = start_worker(broker, queue_name, pool="solo")
        pending = app.send_task("knock", (stage_door.port,))
        first_line: socket.socket = stage_door.answer()
        doomed.kill()
        heir = start_worker(broker, queue_name, pool="solo")
        let_go_on(stage_door.answer())
        assert pending.get(timeout=GET_SECONDS_MAX) == {"redelivered": True, "worker": heir.name}
        first_line.close()


def test_worker_comes_back_after_the_brokers_death(
    mortal_broker: Broker, queue_name: str, start_worker: StartWorker
) -> None:
    start_worker(mortal_broker, queue_name, pool="solo")
    with application(mortal_broker, queue_name) as app:
        assert result_of(app.signature("add", (1, 1))) == 2
    mortal_broker.kill()
    mortal_broker.start()
    with application(mortal_broker, queue_name) as app:
        assert result_of(app.signature("add", (2, 2))) == 4
