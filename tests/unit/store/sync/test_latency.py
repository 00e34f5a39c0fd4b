"""Which disks are quick enough to be waited for."""

from __future__ import annotations

from embermq.store.sync.latency import AVERAGED_SYNCS, HICCUP, SYNCS_AFTER_HICCUP, SyncSpeed

QUICK_S = 0.001


def shown(seconds: float, syncs: int = 10 * AVERAGED_SYNCS) -> SyncSpeed:
    """A disk that has taken so long several times."""
    speed = SyncSpeed()
    speed.call_quick(QUICK_S)
    for _ in range(syncs):
        speed.note(seconds)
    return speed


def test_a_disk_has_to_show_that_it_is_quick() -> None:
    assert not shown(QUICK_S / 2, syncs=0).is_quick()
    assert not shown(QUICK_S / 2, syncs=1).is_quick()
    assert shown(QUICK_S / 2).is_quick()
    assert not shown(QUICK_S * 2).is_quick()


def test_one_slow_sync_among_many_does_not_matter() -> None:
    speed = shown(QUICK_S / 2)
    speed.note(QUICK_S * 2)
    assert speed.is_quick()


def test_a_hiccup_does_and_counts_for_nothing_else() -> None:
    speed = shown(QUICK_S / 2)
    speed.note(QUICK_S * HICCUP)
    for _ in range(SYNCS_AFTER_HICCUP):
        assert not speed.is_quick()
        speed.note(QUICK_S / 2)
    assert speed.is_quick()


def test_the_longer_of_two_pauses_holds() -> None:
    speed = shown(QUICK_S / 2)
    speed.pause(3)
    speed.pause(1)
    for _ in range(3):
        assert not speed.is_quick()
        speed.note(QUICK_S / 2)
    assert speed.is_quick()
