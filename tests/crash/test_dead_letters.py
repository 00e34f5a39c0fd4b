"""A dead letter that is taken before it is safe: what a kill leaves then, and that the model knows it."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

from pamqp import commands as spec

from tests.crash.client import REPLY_SECONDS_MAX, Client, Delivery, look_at, publish_frames
from tests.crash.machine import Machine
from tests.crash.model import Kind, Model, Text

SOURCE, LETTERS, OTHER = "source", "letters", "other"
TTL_MS = 60_000
KINDS = {SOURCE: Kind(letters=LETTERS, arguments=(("x-message-ttl", TTL_MS),))}
TEXT = Text("publisher", 1, True, None)


class Scene:
    """A message in a queue whose messages grow old, and a model that knows of it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.disk = directory / "disk"
        self.disk.mkdir()
        self.model = Model(KINDS)
        self.machine = Machine(str(self.disk))
        # Syncs are to be held up, and that is possible only in the thread for it.
        self.machine.data.committer.sync_here(None)
        self.client = self.machine.client()
        for queue in (SOURCE, LETTERS, OTHER):
            arguments = self.model.kind(queue).declared()
            self.client.call(spec.Queue.Declare(queue=queue, durable=True, arguments=arguments))
        self.client.call(spec.Confirm.Select())
        self.publish(SOURCE, TEXT)

    def publish(self, queue: str, text: Text) -> None:
        confirmed: list[int] = []
        self.client.on_confirm = lambda tag, multiple: confirmed.append(tag)
        self.model.publishing([text], [queue])
        self.client.send_bytes(publish_frames("", queue, text.body(0), text.persistent, text.priority))
        while not confirmed:
            self.client.next()
        self.model.published([text], [queue])

    def hold_syncs(self) -> None:
        """Until the end: nothing that is written from now on is known to be safe."""
        self.machine.resumed.clear()
        self.machine.filesystem.before_sync = self.hold

    def hold(self) -> None:
        if threading.current_thread().name == "store-commit":
            self.machine.resumed.wait(REPLY_SECONDS_MAX)

    def grow_old(self) -> None:
        self.machine.ahead_s += 2 * TTL_MS / 1000

    def take_letter(self) -> None:
        """Get it, acknowledge it, and have an answer behind that."""
        got = self.client.call_get(SOURCE)
        assert got is None, "it has expired"
        got = self.client.call_get(LETTERS)
        assert got is not None
        keys = [self.model.delivered(LETTERS, got)]
        self.model.leaving(LETTERS, keys)
        self.client.send(spec.Basic.Ack(got.tag, False))
        self.client.call(spec.Basic.Qos(prefetch_count=100))
        self.model.gone(LETTERS, keys)

    def killed(self) -> dict[str, list[Delivery]]:
        """What a start finds on what the operating system has now."""
        left = self.directory / "left"
        shutil.copytree(self.disk, left)
        ahead_s = self.machine.ahead_s
        self.machine.crash()
        self.machine = Machine(str(left), ahead_s=ahead_s)
        client: Client = self.machine.client()
        return look_at(client, (SOURCE, LETTERS, OTHER))

    def close(self) -> None:
        self.machine.crash()


def test_taken_before_it_was_safe_it_comes_again(tmp_path: Path) -> None:
    """It had to stay where it came from until it was safe where it went; who took it there was quicker."""
    scene = Scene(tmp_path)
    try:
        scene.hold_syncs()
        scene.grow_old()
        scene.take_letter()
        contents = scene.killed()
        assert [len(contents[queue]) for queue in (SOURCE, LETTERS)] == [0, 1]
        scene.model.check_queues(contents, after_crash=True)
        assert scene.model.failures == []
    finally:
        scene.close()


def test_taken_when_it_was_safe_it_stays_gone(tmp_path: Path) -> None:
    """Whatever is confirmed later, and again after that, says that the letter has left its old queue."""
    scene = Scene(tmp_path)
    try:
        scene.grow_old()
        scene.take_letter()
        for number in range(4):
            scene.publish(OTHER, Text("publisher", 10 + number, True, None))
        contents = scene.killed()
        assert [len(contents[queue]) for queue in (SOURCE, LETTERS, OTHER)] == [0, 0, 4]
        scene.model.check_queues(contents, after_crash=True)
        assert scene.model.failures == []
    finally:
        scene.close()


def letter_that_comes_back(model: Model, confirms: int) -> dict[str, list[Delivery]]:
    """The history of the first test as the model is told it, then so many confirms."""
    delivery = Delivery(1, True, TEXT.body(0))
    model.publishing([TEXT], [SOURCE])
    model.published([TEXT], [SOURCE])
    model.delivered(LETTERS, delivery)
    model.leaving(LETTERS, [TEXT.key])
    model.gone(LETTERS, [TEXT.key])
    others = [Text("publisher", 10 + number, True, None) for number in range(confirms)]
    for text in others:
        model.publishing([text], [OTHER])
        model.published([text], [OTHER])
    return {
        SOURCE: [],
        LETTERS: [delivery],
        OTHER: [Delivery(1, True, text.body(0)) for text in others],
    }


def test_the_model_tells_a_forgotten_removal() -> None:
    """Had the broker not removed it from its old queue, or forgotten the ack, the model would say so."""
    model = Model(KINDS)
    model.check_queues(letter_that_comes_back(model, confirms=4), after_crash=True)
    assert model.failures == [f"{LETTERS} holds {TEXT.key}, which is gone"]


def test_the_model_knows_no_such_excuse_after_a_clean_stop() -> None:
    model = Model(KINDS)
    model.check_queues(letter_that_comes_back(model, confirms=0), after_crash=False)
    assert model.failures == [f"{LETTERS} holds {TEXT.key}, which is gone"]


def test_a_power_cut_may_bring_back_acks_that_were_confirmed_over() -> None:
    model = Model(KINDS, acks_stay=False)
    model.check_queues(letter_that_comes_back(model, confirms=4), after_crash=True)
    assert model.failures == []
