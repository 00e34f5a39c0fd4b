"""Places of connections: a newcomer is let in, and the address that has the most gives one up for it."""

from __future__ import annotations

from dataclasses import dataclass

from embermq.http.server.connection_limit import Places


@dataclass(eq=False)
class Visitor:
    address: str
    waits_for_client: bool = True
    aborted: bool = False

    def abort(self) -> None:
        self.aborted = True


def test_the_oldest_that_waits_at_the_largest_address_gives_way() -> None:
    places = Places(4)
    crowd = [Visitor("a", waits_for_client=number != 0) for number in range(3)]
    single = Visitor("b")
    for visitor in (*crowd, single):
        assert places.enter(visitor)
    newcomer = Visitor("c")
    assert places.enter(newcomer)
    assert [visitor.aborted for visitor in crowd] == [False, True, False]  # the first is being answered
    assert not single.aborted and places.count == 4
    assert places.enter(Visitor("c")) and crowd[2].aborted


def test_one_that_was_used_is_the_newest_again() -> None:
    places = Places(2)
    first, second = Visitor("a"), Visitor("a")
    places.enter(first)
    places.enter(second)
    places.used(first)
    places.enter(Visitor("a"))
    assert second.aborted and not first.aborted


def test_nobody_is_sent_away_in_the_middle_of_an_answer() -> None:
    places = Places(2)
    for address in ("a", "b"):
        places.enter(Visitor(address, waits_for_client=False))
    assert not places.enter(Visitor("c")) and places.count == 2


def test_unless_the_places_are_such() -> None:
    places = Places(2, interrupts=True)
    first, second = (Visitor("a", waits_for_client=False) for _ in range(2))
    places.enter(first)
    places.enter(second)
    assert places.enter(Visitor("c")) and first.aborted and not second.aborted


def test_who_leaves_twice_leaves_once() -> None:
    places = Places(2)
    visitor = Visitor("a")
    places.enter(visitor)
    places.leave(visitor)
    places.leave(visitor)
    assert places.count == 0 and not places.by_address and visitor not in places
