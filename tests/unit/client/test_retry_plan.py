"""When and where the client connects next."""

from __future__ import annotations

import pytest

from embermq.client.address import Endpoint, Settings
from embermq.client.errors import (
    AuthenticationFailed,
    ClientError,
    ConnectionClosed,
    ConnectionFailed,
    ConnectionLost,
)
from embermq.client.retry_plan import Attempts

HOSTS = (Endpoint("a", 1), Endpoint("b", 2))
FAILED = ConnectionFailed("nobody there")
LOST = ConnectionLost("broken")


def test_all_hosts_are_tried_before_giving_up() -> None:
    attempts = Attempts(Settings(endpoints=HOSTS, connection_attempts=2, retry_delay_s=7))
    seen = []
    while True:
        seen.append(attempts.endpoint.host)
        pause = attempts.pause_after(FAILED, was_open=False)
        if pause is None:
            break
        seen.append(str(pause))
    assert seen == ["a", "0.0", "b", "7", "a", "0.0", "b"]


def test_pauses_grow_up_to_a_limit_and_begin_anew_after_a_success() -> None:
    attempts = Attempts(Settings(reconnect_delay_s=1, reconnect_delay_max_s=10))
    assert 0.5 <= (attempts.pause_after(LOST, was_open=True) or 0) <= 1
    pauses = [attempts.pause_after(FAILED, was_open=False) or 0 for _ in range(5000)]
    for pause, most in zip(pauses, (2, 4, 8, 10, 10), strict=False):
        assert most / 2 <= pause <= most
    assert len(set(pauses)) > 1000, "never twice the same"
    assert max(pauses) <= 10
    assert 0.5 <= (attempts.pause_after(LOST, was_open=True) or 0) <= 1


def test_after_a_success_it_begins_with_the_first_host() -> None:
    attempts = Attempts(Settings(endpoints=HOSTS))
    attempts.pause_after(FAILED, was_open=False)
    assert attempts.endpoint.host == "b"
    attempts.pause_after(LOST, was_open=True)
    assert attempts.endpoint.host == "a"


def test_limits() -> None:
    attempts = Attempts(Settings(reconnect_attempts=2))
    assert attempts.pause_after(LOST, was_open=True) is not None
    assert attempts.pause_after(FAILED, was_open=False) is not None
    assert attempts.pause_after(FAILED, was_open=False) is None
    assert Attempts(Settings(reconnect=False)).pause_after(LOST, was_open=True) is None


@pytest.mark.parametrize(
    ("error", "comes_back"),
    [
        (LOST, True),
        (ConnectionClosed("", reply_code=320), True),
        (ConnectionClosed("", reply_code=541), True),
        (ConnectionClosed("", reply_code=503), False),
        (ConnectionClosed("closed by its user"), False),
        (AuthenticationFailed("", reply_code=403), True),
    ],
)
def test_mistakes_of_our_own_are_not_repeated(error: ClientError, comes_back: bool) -> None:
    assert (Attempts(Settings()).pause_after(error, was_open=True) is not None) == comes_back


def test_a_wrong_password_is_final_at_the_first_attempt() -> None:
    error = AuthenticationFailed("", reply_code=403)
    assert Attempts(Settings(connection_attempts=9)).pause_after(error, was_open=False) is None


def test_a_broker_that_closes_what_it_has_just_opened_is_left_alone_for_longer_each_time() -> None:
    attempts = Attempts(Settings(reconnect_delay_s=1, reconnect_delay_max_s=10))
    refused = ConnectionClosed("541", reply_code=541)
    pauses = [attempts.pause_after(refused, was_open=True, lived_s=0.1) or 0 for _ in range(5)]
    for pause, most in zip(pauses, (2, 4, 8, 10, 10), strict=True):
        assert most / 2 <= pause <= most
    assert 0.5 <= (attempts.pause_after(refused, was_open=True, lived_s=3600) or 0) <= 1
