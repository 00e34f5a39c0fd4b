"""Those who have not logged in: few at a time, the others in line, addresses by turns, nobody forgotten."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from embermq.app.app import App
from embermq.app.reload import reload
from embermq.config import Config
from embermq.net import login_admission as lobby_module
from embermq.net.login_admission import LoginAdmission, Place, Room, network_of
from embermq.wire.frame import PROTOCOL_HEADER
from tests.support.amqp_conversation import HANDSHAKE
from tests.support.raw_client import spec
from tests.unit.net.test_server import connected, opened, play, say, wait_for


class Hall:
    """An admission with a clock that stands still, and those who come to it."""

    def __init__(self, room: Room) -> None:
        self.admission = LoginAdmission(lambda: 0.0)
        self.admission.set_room(room)
        self.sockets: list[socket.socket] = []
        self.peers: dict[str, socket.socket] = {}
        self.inside: dict[str, Place] = {}

    def come(self, address: str, count: int = 1) -> None:
        for _ in range(count):
            ours, theirs = socket.socketpair()
            ours.setblocking(False)
            name = f"{address}#{len(self.peers)}"
            self.sockets.append(ours)
            self.peers[name] = theirs
            self.admission.arrive(ours, address, lambda _, place, name=name: self.enter(name, place))

    def enter(self, name: str, place: Place) -> None:
        assert name not in self.inside
        self.inside[name] = place

    def of(self, address: str) -> list[str]:
        return [name for name in self.inside if name.startswith(f"{address}#")]


@pytest.fixture
def hall(request: pytest.FixtureRequest) -> Iterator[Hall]:
    made = Hall(request.param)
    yield made
    made.admission.close()
    for sock in (*made.sockets, *made.peers.values()):
        sock.close()


@pytest.mark.parametrize("hall", [Room(places=3, per_address=2, line=100)], indirect=True)
def test_places_are_few_and_addresses_take_turns(hall: Hall) -> None:
    hall.come("10.0.0.1", 5)
    assert len(hall.of("10.0.0.1")) == 2
    hall.come("10.0.0.2", 2)
    hall.come("10.0.0.3", 2)
    assert (len(hall.of("10.0.0.2")), len(hall.of("10.0.0.3"))) == (1, 0)
    assert (hall.admission.taken_count, hall.admission.waiting_count) == (3, 6)
    order = []
    while hall.inside:
        before = set(hall.inside)
        name = next(iter(hall.inside))
        place = hall.inside.pop(name)
        place.leave()
        place.leave()  # says so again, and that changes nothing
        order += [entered.partition("#")[0][-1] for entered in hall.inside if entered not in before]
    assert sorted(order) == ["1", "1", "1", "2", "3", "3"]
    assert {"2", "3"} <= set(order[:3])  # not all of the first address before them
    assert (hall.admission.taken_count, hall.admission.waiting_count) == (0, 0)
    assert (hall.admission.places, hall.admission.line, hall.admission.ranks) == ({}, {}, {})


@pytest.mark.parametrize("hall", [Room(places=2, per_address=1, line=8)], indirect=True)
def test_the_line_has_an_end_and_room_for_others(hall: Hall, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "embermq.net"):
        hall.come("10.0.0.1", 20)
    assert len([line for line in caplog.messages if "stand in line" in line]) == 1, "one line for all of them"
    assert hall.admission.waiting_count == 4, "half of the line"
    assert hall.admission.refused_count == 20 - 1 - 4
    refused = hall.peers["10.0.0.1#19"]
    assert refused.recv(1) == b"", "closed"
    hall.come("10.0.0.2", 3)
    assert len(hall.of("10.0.0.2")) == 1
    assert hall.admission.waiting_count == 6


@pytest.mark.parametrize("hall", [Room(places=1, per_address=1, line=8)], indirect=True)
def test_who_has_given_up_takes_no_place(hall: Hall) -> None:
    hall.come("10.0.0.1", 4)
    hall.peers["10.0.0.1#1"].close()
    hall.peers["10.0.0.1#2"].close()
    hall.inside["10.0.0.1#0"].leave()
    assert list(hall.inside) == ["10.0.0.1#0", "10.0.0.1#3"]


@pytest.mark.parametrize("hall", [Room(places=1, per_address=1, line=8)], indirect=True)
def test_more_room_lets_more_in(hall: Hall) -> None:
    hall.come("10.0.0.1", 3)
    hall.come("10.0.0.2", 1)
    hall.admission.set_room(Room(places=4, per_address=2, line=8))
    assert len(hall.inside) == 3 and len(hall.of("10.0.0.1")) == 2
    hall.admission.set_room(Room(places=1, per_address=1, line=0))
    hall.inside["10.0.0.2#3"].leave()
    hall.inside["10.0.0.1#0"].leave()
    assert len(hall.inside) == 3, "there is less room now, and one is still inside"
    hall.inside["10.0.0.1#1"].leave()
    assert len(hall.inside) == 4


@pytest.mark.parametrize("hall", [Room(places=100, per_address=60, line=100)], indirect=True)
def test_there_is_a_place_for_an_address_that_is_new(hall: Hall) -> None:
    for number in range(1, 6):
        hall.come(f"10.0.0.{number}", 80)
    assert [len(hall.of(f"10.0.0.{number}")) for number in range(1, 6)] == [50, 25, 13, 6, 3]
    hall.come("10.0.0.9")
    assert len(hall.of("10.0.0.9")) == 1


@pytest.mark.parametrize("hall", [Room(places=8, per_address=8, line=100)], indirect=True)
def test_a_free_place_goes_to_the_address_that_has_the_fewest(hall: Hall) -> None:
    for address, count in (("10.0.0.1", 9), ("10.0.0.2", 9), ("10.0.0.3", 9), ("10.0.0.4", 9)):
        hall.come(address, count)
    assert [len(hall.of(f"10.0.0.{number}")) for number in (1, 2, 3, 4)] == [4, 2, 1, 1]
    before = set(hall.inside)
    for name in ("10.0.0.1#0", "10.0.0.1#1"):
        hall.inside[name].leave()
    entered = [name.partition("#")[0] for name in hall.inside if name not in before]
    assert entered == ["10.0.0.3"], "and not the fourth as well: one is kept for whoever is new"


@pytest.mark.parametrize("hall", [Room()], indirect=True)
def test_the_last_files_are_not_for_new_connections(hall: Hall) -> None:
    hall.come("10.0.0.1")
    hall.admission.descriptor_max = hall.sockets[0].fileno()
    hall.come("10.0.0.2")
    assert (len(hall.inside), hall.admission.refused_count) == (1, 1)
    assert hall.peers["10.0.0.2#1"].recv(1) == b"", "closed"


def test_strangers_get_a_part_of_the_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lobby_module, "file_limit", lambda: 1024)
    admission = LoginAdmission(lambda: 0.0)
    assert (admission.places_max, admission.line_max, admission.descriptor_max) == (256, 256, 896)


@pytest.mark.parametrize("hall", [Room(places=1, per_address=1, line=8)], indirect=True)
def test_a_closed_lobby_lets_nobody_in(hall: Hall) -> None:
    hall.come("10.0.0.1", 2)
    hall.admission.close()
    hall.inside["10.0.0.1#0"].leave()
    hall.come("10.0.0.2")
    assert list(hall.inside) == ["10.0.0.1#0"]
    assert hall.peers["10.0.0.1#1"].recv(1) == hall.peers["10.0.0.2#2"].recv(1) == b""


def test_addresses_of_version_6_count_by_network() -> None:
    assert network_of("2001:db8::1") == network_of("2001:db8::ffff:2") != network_of("2001:db8:0:1::1")
    assert network_of("::ffff:10.0.0.1") == "10.0.0.1"
    assert network_of("fe80::1%eth0") == network_of("fe80::2%eth1")
    assert network_of("") == ""


async def until(condition: object) -> None:
    assert callable(condition)
    while not condition():
        await asyncio.sleep(0.01)


def test_a_client_stands_in_line_and_logs_in(tmp_path: Path) -> None:
    """Three say nothing; the fourth waits for one of them to go, and needs to do nothing for it."""

    async def scenario(app: App) -> None:
        admission = app.server.admission
        guest = await opened(app)
        await until(lambda: admission.taken_count == 0)  # logged in: no longer a stranger
        app.server.handshake_s = 600
        admission.set_room(Room(places=10, per_address=3, line=100))
        silent = [await connected(app) for _ in range(3)]
        for one in silent:
            await say(one, PROTOCOL_HEADER)
            await wait_for(one, spec.Connection.Start)
        waiting = [await connected(app) for _ in range(2)]
        for client in waiting:
            await say(client, HANDSHAKE)
        await until(lambda: admission.waiting_count == 2)
        other = await opened(app, address="127.0.0.9")  # another address waits for nobody
        numbers = [measure() for name, measure in app.management.context.measures.items() if "unauth" in name]
        assert numbers == [3, 2, 0]
        silent[0].drop()
        for client in waiting:  # one after the other, by the one place that is free
            await wait_for(client, spec.Connection.OpenOk)
        silent[1].drop()
        silent[2].drop()
        await until(lambda: admission.taken_count == 0)
        for client in (guest, other, *waiting):
            client.drop()

    play(tmp_path, scenario)


def test_the_room_is_a_setting_that_may_change(tmp_path: Path) -> None:
    async def scenario(app: App) -> None:
        assert app.server.admission.room == Room()
        limits = type(app.config.limits)(
            unauthenticated=7, unauthenticated_per_address=5, unauthenticated_waiting=3
        )
        settings = Config(amqp_port=0, http_port=0, data_dir=app.config.data_dir, limits=limits)
        await reload(app, settings)
        assert app.server.admission.room == Room(7, 5, 3)

    play(tmp_path, scenario)
