"""Staying with a publisher that waits for every confirm, while nobody else is there.

Its messages come one by one, each as soon as it has the confirm of the one before. Going round the loop for
each takes more different code than all the rest, code that is cold after every sync. So the one who has just
been answered is waited for here, together with everything that would wake the loop: its next message is read
and gets its turn at once. Whatever else comes ends that, and for a while nobody is stayed with.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop

from embermq.amqp.connection import Connection
from embermq.clock import monotonic_s
from embermq.net.calls import receive, receive_soon, wait_for, watch
from embermq.net.traffic import Traffic

STAY_S_MIN = 0.002  # then timers and what was put off for the next pass of the loop have theirs
STAY_S_MAX = 0.016  # if nobody else was there for several such times
WAIT_MS_MAX = 1  # for its next message
ROUNDS_AFTER_OTHERS = 16  # somebody else was there: so many answers go round the loop
READ_BYTES_MAX = 64 * 1024
AWAKE_S = 30e-6  # its next message is looked for, before going to sleep
NAPS_MAX = 16  # that was in vain: so many messages at most are waited for asleep
MINE, OTHERS = 1, 2  # as `calls` has them


def loop_descriptor(loop: AbstractEventLoop) -> int:
    """What the loop waits on, which can be waited on in turn; -1 if this loop does not tell."""
    tell = getattr(loop, "_get_backend_id", None)  # uvloop
    if tell is None:
        tell = getattr(getattr(loop, "_selector", None), "fileno", None)  # asyncio
    return -1 if tell is None else int(tell())


class Attention:
    __slots__ = ("asleep", "descriptor", "naps", "rounds_left", "stay_s", "wait_ms_max")

    def __init__(self, loop: AbstractEventLoop) -> None:
        self.descriptor = loop_descriptor(loop)
        self.rounds_left = 0  # until somebody may be stayed with again
        self.asleep = 0  # so many messages are waited for asleep
        self.naps = 1  # as many, the next time that one is waited for awake in vain
        self.stay_s = STAY_S_MIN  # at most
        self.wait_ms_max = WAIT_MS_MAX

    def attend(self, connection: Connection) -> None:
        """The connection waited alone, and has just been answered."""
        if self.rounds_left:
            self.rounds_left -= 1
            return
        traffic = connection.shell
        if self.descriptor >= 0 and isinstance(traffic, Traffic) and traffic.go_direct():
            if watch(self.descriptor, traffic.descriptor, False):
                try:
                    self.stay(traffic)
                finally:
                    watch(self.descriptor, traffic.descriptor, True)
            connection.direct = -1

    def stay(self, traffic: Traffic) -> int:
        connection = traffic.connection
        until_s = monotonic_s() + min(self.stay_s, connection.turn.due_in_s())
        while monotonic_s() < until_s:
            size = self.next_message(traffic)
            if size <= 0:
                return 0
            connection.turn.begin_at_once()
            try:
                traffic.buffer_updated(size)
            finally:
                alone = connection.turn.run_at_once() and not self.rounds_left
            traffic.spoke = True
            if not alone or connection.direct < 0 or traffic.held or traffic.unfinished:
                return 0
        self.stay_s = min(self.stay_s * 2, STAY_S_MAX)
        return 0

    def next_message(self, traffic: Traffic) -> int:
        """Read it; its size, 0 or less if there is none to be stayed for. Notes whether others are there.

        A client that does nothing but wait answers sooner than it takes to fall asleep and to be woken (on
        another processor, as likely as not). So it is waited for awake, while that proves right; each time
        that it does not, the next are waited for asleep, twice as many as the time before.
        """
        if self.asleep:
            self.asleep -= 1
        elif wait_for(-1, self.descriptor, 0):  # now, not when there is a message that waits to be written
            self.note_others()
            return 0
        else:
            size = receive_soon(traffic.descriptor, traffic.read_buffer, READ_BYTES_MAX, AWAKE_S)
            if size >= 0:
                self.naps = 1
                return size
            self.asleep = self.naps
            self.naps = min(self.naps * 2, NAPS_MAX)
        found = wait_for(traffic.descriptor, self.descriptor, self.wait_ms_max)
        if found & OTHERS:
            self.note_others()
        if found & MINE:
            return receive(traffic.descriptor, traffic.read_buffer, READ_BYTES_MAX)
        return 0

    def note_others(self) -> int:
        self.rounds_left = ROUNDS_AFTER_OTHERS
        self.stay_s = STAY_S_MIN
        return 0
