"""Restoring a broker: chained bindings keep their conditions, or are gone as a whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from embermq.broker.message.rewrite import composed
from embermq.broker.selector.selector import Selector
from embermq.broker.vhost import VirtualHost
from embermq.wire.properties import Properties
from tests.support.domain import new_queue
from tests.support.stored_domain import StoredBroker


def reached(vhost: VirtualHost, key: str, headers: dict[str, object]) -> list[str]:
    message = composed("amq.topic", key, Properties(headers=headers), b"")
    return [queue.name for queue in vhost.exchanges["amq.topic"].resolve(key, message)[0]]


def wire(vhost: VirtualHost) -> None:
    """The queue gets what has a key like a.#, the header h = 1 and a header i above 1."""
    vhost.declare_exchange(
        "second", "x-selector", durable=True, auto_delete=False, internal=False, arguments={}
    )
    queue = new_queue(vhost, durable=True)
    vhost.bind(vhost.exchanges["amq.topic"], queue, "a.#", {})
    vhost.bind(vhost.exchanges["amq.headers"], queue, "", {"x-via": "amq.topic", "h": 1})
    vhost.bind(
        vhost.exchanges["second"], queue, "", {"x-via": ["amq.topic", "amq.headers"], "x-selector": "i > 1"}
    )


@pytest.mark.parametrize("cleanly", [True, False])
def test_chained_bindings_outlast_a_restart(tmp_path: Path, cleanly: bool) -> None:
    broker = StoredBroker(tmp_path)
    wire(broker.vhost)
    broker.wait_until_safe()
    with broker.restarted(cleanly) as again:
        vhost = again.vhost
        assert reached(vhost, "a.b", {"h": 1, "i": 2}) == ["q"]
        assert reached(vhost, "a.b", {"h": 1, "i": 1}) == []
        assert reached(vhost, "a.b", {"h": 2, "i": 2}) == []
        assert reached(vhost, "b", {"h": 1, "i": 2}) == []
        vhost.delete_exchange(vhost.exchanges["second"])
        assert not vhost.queue_bindings[vhost.queues["q"]]


def test_a_rule_whose_exchange_was_being_deleted_is_gone(tmp_path: Path) -> None:
    broker = StoredBroker(tmp_path)
    wire(broker.vhost)
    broker.definitions.delete("exchange", "/", "second")  # as far as the deletion came
    broker.wait_until_safe()
    again = broker.restarted(cleanly=False)
    assert reached(again.vhost, "a.b", {"h": 1, "i": 2}) == []
    assert not again.vhost.queue_bindings.get(again.vhost.queues["q"])
    again.wait_until_safe()
    with again.restarted() as third:
        assert not third.vhost.queue_bindings.get(third.vhost.queues["q"])


def test_a_selector_that_this_version_does_not_understand_stops_nothing_and_matches_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broker = StoredBroker(tmp_path)
    wire(broker.vhost)
    vhost = broker.vhost
    with pytest.MonkeyPatch.context() as patch:  # a version in which it means something
        patch.setattr("embermq.broker.exchange.types.Selector", lambda text: Selector("i > 1"))
        arguments = {"x-via": ["amq.topic", "amq.headers"], "x-selector": "i BEYOND 1"}
        vhost.bind(vhost.exchanges["second"], new_queue(vhost, "other", durable=True), "", arguments)
        vhost.bind(vhost.exchanges["amq.topic"], vhost.queues["other"], "#", {})
    broker.wait_until_safe()
    with broker.restarted() as again:
        assert "matches nothing" in caplog.text
        assert reached(again.vhost, "a.b", {"h": 1, "i": 2}) == ["q"]
        again.vhost.delete_exchange(again.vhost.exchanges["second"])
