"""Whether anybody else waits for the loop, asked without waking it."""

from __future__ import annotations

import select
import socket

from embermq.net.calls import others_wait


def test_others_wait_only_if_the_loop_has_something_for_them() -> None:
    mine, peer = socket.socketpair()
    theirs, other_peer = socket.socketpair()
    with mine, peer, theirs, other_peer, select.epoll() as loop:
        loop.register(mine, select.EPOLLIN)
        loop.register(theirs, select.EPOLLIN)
        assert not others_wait(loop.fileno(), mine.fileno())
        peer.send(b"more of the flood")
        assert not others_wait(loop.fileno(), mine.fileno())
        other_peer.send(b"a word")
        assert others_wait(loop.fileno(), mine.fileno())
        assert len(loop.poll(0)) == 2  # nothing was taken from the loop
    assert others_wait(-1, 0)  # cannot be told
