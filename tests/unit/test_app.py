"""The composition root: it stops when told, and when the disk cannot be trusted it stops and says so."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import time
from pathlib import Path

import pytest

from embermq.app import serve as app_module
from embermq.app.app import App
from embermq.app.limits import limits_of
from embermq.app.serve import new_event_loop, run, serve
from embermq.broker.publish import compose, publish
from embermq.client import AuthenticationFailed, connect
from embermq.config import Config, ConfigError, load
from embermq.store import data_directory
from embermq.store.disk.filesystem import File, FileSystem
from embermq.store.errors import CommitFailed
from embermq.testing import EmbeddedBroker


def config(directory: Path, **more: object) -> Config:
    return Config(amqp_port=0, http_port=0, data_dir=directory / "data", **more)  # type: ignore[arg-type]


def test_a_signal_ends_it(tmp_path: Path) -> None:
    lines: list[str] = []

    def ready(line: str) -> None:
        lines.append(line)
        os.kill(os.getpid(), signal.SIGTERM)

    run(config(tmp_path), ready)
    assert len(lines) == 1 and lines[0].startswith("EmberMQ ")


def test_a_new_broker_has_the_first_user_of_the_environment(tmp_path: Path) -> None:
    environment = {
        "EMBERMQ_DEFAULT_USER": "app",
        "EMBERMQ_DEFAULT_PASSWORD": "secret",
        "EMBERMQ_DEFAULT_VHOST": "shop",
    }
    found = load(environment=environment)
    with EmbeddedBroker(data_dir=tmp_path / "data", default=found.default) as broker:
        address = broker.url.removesuffix("%2F").removesuffix("/")
        with connect(f"{address.replace('guest:guest', 'app:secret')}/shop") as connection:
            assert connection.is_open
        with pytest.raises(AuthenticationFailed):
            connect(address)
    # It is for the first start: a password that was changed since is not changed back.
    changed = load(environment={**environment, "EMBERMQ_DEFAULT_PASSWORD": "other"})
    with EmbeddedBroker(data_dir=tmp_path / "data", default=changed.default) as broker:
        address = broker.url.removesuffix("%2F").removesuffix("/").replace("guest:guest", "app:secret")
        with connect(f"{address}/shop") as connection:
            assert connection.is_open


def test_a_first_user_whose_password_cannot_be_read_is_no_first_start(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    environment = {"EMBERMQ_DEFAULT_USER": "app", "EMBERMQ_DEFAULT_PASSWORD_FILE": str(secret)}
    settings = load(environment=environment).default
    with pytest.raises(ConfigError, match="the password of user 'app'"):
        EmbeddedBroker(data_dir=tmp_path / "data", default=settings).start()
    secret.write_text("read now\n")
    with EmbeddedBroker(data_dir=tmp_path / "data", default=settings) as broker:
        with connect(broker.url.replace("guest:guest", "app:read%20now")) as connection:
            assert connection.is_open


@pytest.mark.parametrize(
    "given", [{"USER": "app"}, {"PASSWORD": "x"}, {"USER": "a", "PASSWORD": "x", "PASSWORD_FILE": "y"}]
)
def test_a_first_user_needs_one_password(given: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="with one of default"):
        load(environment={f"EMBERMQ_DEFAULT_{name}": value for name, value in given.items()})


def test_a_disk_that_fails_ends_it_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[App] = []

    class Watched(App):
        def __init__(self, settings: Config) -> None:
            super().__init__(settings)
            made.append(self)

    monkeypatch.setattr(app_module, "App", Watched)
    reasons = [CommitFailed("the disk is gone"), CommitFailed("and again")]
    with asyncio.Runner(loop_factory=new_event_loop) as runner, pytest.raises(CommitFailed, match="is gone"):
        runner.run(serve(config(tmp_path), lambda _: [made[0].fail(reason) for reason in reasons] and None))
    # The lock is free again, and nobody believes that this was a clean stop.
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        assert runner.run(stopped_notes(tmp_path)) == 0


async def stopped_notes(directory: Path) -> int:
    from embermq.store.data_directory import DataDirectory

    data = DataDirectory.open(str(directory / "data"), asyncio.get_running_loop().call_soon_threadsafe)
    try:
        return len(data.definitions.all("stopped"))
    finally:
        data.close()


def test_limits_are_those_of_the_settings(tmp_path: Path) -> None:
    limits = limits_of(config(tmp_path, frame_max=8192, channel_max=7, heartbeat=5, max_message_size=99))
    assert (limits.frame_max, limits.channel_max) == (8192, 7)
    assert (limits.heartbeat_s, limits.body_bytes_max) == (5, 99)


def test_an_address_of_six_is_written_in_brackets(tmp_path: Path) -> None:
    async def line() -> str:
        app = App(config(tmp_path, bind="::1"))
        try:
            await app.start()
            return app.ready_line
        finally:
            await app.stop()

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        assert re.search(r"ready: amqp://\[::1\]:\d+ http://\[::1\]:\d+ \(\w+\)$", runner.run(line()))


def test_a_stop_waits_for_dead_letters_to_leave_their_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They leave when they are on disk in the new one; a clean stop does not bring them back to the old."""

    class SlowFileSystem(FileSystem):
        def sync(self, file: File) -> None:
            time.sleep(0.2)  # longer than anything else in a stop
            super().sync(file)

    monkeypatch.setattr(data_directory, "FileSystem", SlowFileSystem)
    dead = {"x-max-length": 1, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "letters"}

    async def publish_and_stop() -> None:
        app = App(config(tmp_path))
        vhost = app.broker.vhosts["/"]
        for name, arguments in (("limited", dead), ("letters", {})):
            vhost.declare_queue(
                name, owner=None, durable=True, exclusive=False, auto_delete=False, arguments=arguments
            )
        guest = app.broker.users["guest"]
        for body in (b"1", b"2", b"3"):
            publish(vhost.exchanges[""], compose("", "limited", {"delivery_mode": 2}, body, guest))
        await app.stop()

    async def counts() -> list[int]:
        app = App(config(tmp_path))
        found = [app.broker.vhosts["/"].queues[name].ready_count for name in ("limited", "letters")]
        await app.stop()
        return found

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(publish_and_stop())
        assert runner.run(counts()) == [1, 2]
