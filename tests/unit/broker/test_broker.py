"""What a restart brings back, and who may log in."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from embermq.broker.security.user import Permission, User
from embermq.store.definitions import Definitions
from tests.support.domain import message, new_queue
from tests.support.stored_domain import StoredBroker


def test_a_first_start_has_guest_and_the_default_vhost(tmp_path: Path) -> None:
    with StoredBroker(tmp_path / "data") as stored:
        assert not stored.restored
        assert list(stored.broker.vhosts) == ["/"] and list(stored.broker.users) == ["guest"]
        guest = stored.broker.users["guest"]
        assert guest.loopback_only and guest.tags == {"administrator"}
        assert guest.permissions["/"].allows("configure", "anything")


def test_a_first_start_is_all_or_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was killed behind the virtual host and before the user left a broker that nobody could use."""
    put = Definitions.put

    def put_slowly(*arguments: Any) -> None:
        put(*arguments)
        time.sleep(0.05)

    monkeypatch.setattr(Definitions, "put", put_slowly)
    with StoredBroker(tmp_path / "data") as stored:
        stored.data.definitions.all("vhost")
        assert stored.data.definitions.commits == 1


def test_a_stop_with_a_full_disk_does_not_call_its_files_whole(tmp_path: Path) -> None:
    stored = StoredBroker(tmp_path / "data")
    queue = new_queue(stored.vhost, "q", durable=True)
    stored.storage.unwritten.append(queue.low)
    stored.broker.note_stop()
    (note,) = stored.data.definitions.all("stopped")
    assert note.body["whole"] is False
    stored.data.close()


@pytest.mark.parametrize("cleanly", [True, False])
def test_what_is_missing_behind_an_orderly_stop_is_damage(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, cleanly: bool
) -> None:
    caplog.set_level("INFO")
    stored = StoredBroker(tmp_path / "data")
    queue = new_queue(stored.vhost, "q", durable=True)
    for number in range(3):
        queue.append(message(b"%d" % number, persistent=True))
    stored.wait_until_safe()
    stored.stop(cleanly)
    (segment,) = tmp_path.glob("data/queues/*/*.segment")
    with segment.open("r+b") as file:
        file.truncate(segment.stat().st_size - 3)
    stored = StoredBroker(tmp_path / "data")
    assert stored.vhost.queues["q"].ready_count == 2
    told = [record.getMessage() for record in caplog.records if str(segment.parent) in record.getMessage()]
    assert len(told) == 1
    assert ("is damaged, set aside" in told[0]) == cleanly
    assert ("was cut off" in told[0]) == (not cleanly)
    stored.stop(cleanly)


def test_who_deletes_the_last_vhost_does_not_bring_guest_back(tmp_path: Path) -> None:
    stored = StoredBroker(tmp_path / "data")
    broker = stored.broker
    broker.users.add(User.with_password("ann", "secret", tags=frozenset({"administrator"})))
    broker.users.delete(broker.users["guest"])
    broker.delete_vhost(broker.vhosts["/"])
    for _ in range(2):
        stored = stored.restarted()
        assert (list(stored.broker.vhosts), list(stored.broker.users)) == ([], ["ann"])
    stored.stop()


def test_everything_durable_comes_back(tmp_path: Path) -> None:
    stored = StoredBroker(tmp_path / "data")
    broker = stored.broker
    other = broker.add_vhost("other")
    user = User.with_password("ann", "secret", tags=frozenset({"monitoring"}))
    broker.users.add(user)
    broker.users.grant(user, "other", Permission("^mine", "", ".*"))
    arguments: dict[str, object] = {"x-max-length": 5, "note": b"\x00\xff", "nested": {"a": [1, None]}}
    exchange = other.declare_exchange(
        "x", "headers", durable=True, auto_delete=True, internal=True, arguments={"alternate-exchange": "y"}
    )
    queue = new_queue(other, "q", durable=True, auto_delete=True, arguments=arguments)
    other.bind(exchange, queue, "key.\udcff", {"x-match": "any", "a": 1})
    other.bind(other.exchanges["amq.topic"], exchange, "#", {})
    new_queue(other, "transient")
    stored = stored.restarted()
    assert stored.restored
    vhost = stored.broker.vhosts["other"]
    back = vhost.queues["q"]
    assert list(vhost.queues) == ["q"]
    assert (back.durable, back.auto_delete, back.arguments, back.id) == (True, True, arguments, queue.id)
    again = vhost.exchanges["x"]
    assert (again.type, again.durable, again.auto_delete, again.internal) == ("headers", True, True, True)
    assert again.arguments == {"alternate-exchange": "y"}
    (binding,) = again.bindings.values()
    assert (binding.destination, binding.routing_key) == (back, "key.\udcff")
    assert binding.arguments == {"x-match": "any", "a": 1}
    (upstream,) = vhost.exchanges["amq.topic"].bindings.values()
    assert upstream.destination is again
    ann = stored.broker.users["ann"]
    assert ann.secret.fits(b"secret") and ann.tags == {"monitoring"} and not ann.loopback_only
    assert ann.permissions["other"].patterns == {"configure": "^mine", "write": "", "read": ".*"}
    vhost.unbind(again, back, "key.\udcff", {"x-match": "any", "a": 1})
    assert "x" not in vhost.exchanges, "auto-delete still works"
    stored.stop()


def test_messages_come_back_with_their_size_and_what_is_known_of_their_delivery(tmp_path: Path) -> None:
    stored = StoredBroker(tmp_path / "data")
    queue = new_queue(stored.vhost, durable=True)
    for number in range(10):
        queue.append(message(b"%d" % number, persistent=number != 5, priority=number))
    out = [queue.get() for _ in range(3)]
    assert all(entry is not None for entry in out)
    stored = stored.restarted()
    queue = stored.vhost.queues["q"]
    assert queue.ready_count == 9
    got = [queue.get() for _ in range(9)]
    seen = [(int(entry.message.body), bool(entry.redelivered)) for entry in got if entry is not None]
    # A clean stop knows who was out: 6, 7 and 8 (5 was transient); nobody else is called redelivered.
    assert seen == [(6, True), (7, True), (8, False), (9, False), *((n, False) for n in range(5))]
    assert (queue.ready_count, queue.ready_bytes) == (0, 0)
    stored = stored.restarted(cleanly=False)
    queue = stored.vhost.queues["q"]
    entry = queue.get()
    assert entry is not None and entry.redelivered, "after a crash any message may have been delivered"
    assert entry.message.priority == 6 and entry.message.routing_key == "key"
    stored.stop()


def test_files_of_queues_that_are_gone_are_removed(tmp_path: Path) -> None:
    stored = StoredBroker(tmp_path / "data")
    for name in ("stays", "goes", "transient"):
        queue = new_queue(stored.vhost, name, durable=name != "transient")
        queue.append(message(persistent=True))
    stored.wait_until_safe()
    stored.vhost.delete_queue(stored.vhost.queues["goes"])
    kept = stored.vhost.queues["stays"].id
    stored = stored.restarted()
    ids = stored.data.layout.queue_ids(stored.data.disk.filesystem)
    assert {queue_id.removesuffix(".high") for queue_id in ids} == {kept}
    stored.stop()


@pytest.mark.parametrize("cleanly", [True, False])
def test_a_vhost_that_was_being_deleted_goes_at_the_next_start(tmp_path: Path, cleanly: bool) -> None:
    stored = StoredBroker(tmp_path / "data")
    going = stored.broker.add_vhost("going")
    for vhost in (going, stored.vhost):
        for name in ("a", "b"):
            new_queue(vhost, name, durable=True).append(message(b"m", persistent=True))
    stored.wait_until_safe()
    stored.broker.begin_vhost_deletion(going)
    going.delete_queue(going.queues["a"])
    stored.broker.describe_vhost(going, "somebody describes it in the middle", ())
    stored.wait_until_safe()
    stored = stored.restarted(cleanly)
    assert list(stored.broker.vhosts) == ["/"]
    assert {name: queue.ready_count for name, queue in stored.vhost.queues.items()} == {"a": 1, "b": 1}
    # Nothing of it is left for one that comes under the same name.
    assert not stored.broker.add_vhost("going").queues
    stored = stored.restarted(cleanly)
    assert list(stored.broker.vhosts) == ["/", "going"] and not stored.broker.vhosts["going"].queues
    stored.data.disk.wait_deleted()
    assert len(list((tmp_path / "data" / "queues").iterdir())) == 2
    stored.stop()
