"""System calls on the socket of a connection that somebody stays with (see `attention`).

`calls.pyx` beside this file is the compiled twin. None of them raises: what is wrong with the socket, the
loop finds out as well, and knows what to do.
"""

from __future__ import annotations

import os
import select
import socket

from embermq.clock import monotonic_s

MINE = 1  # the socket has something to read (or is at its end)
OTHERS = 2  # somebody else has something for the loop


def wait_for(descriptor: int, loop_descriptor: int, milliseconds: int) -> int:
    """Wait for the socket (-1: none) and for all that would wake the loop; which of them came, 0 if none."""
    poll = select.poll()
    if descriptor >= 0:
        poll.register(descriptor, select.POLLIN)
    poll.register(loop_descriptor, select.POLLIN)
    ready = [found for found, _ in poll.poll(milliseconds)]
    return (MINE if descriptor in ready else 0) | (OTHERS if loop_descriptor in ready else 0)


def watch(loop_descriptor: int, descriptor: int, watched: bool) -> bool:
    """Have the loop, which reads from the socket, not wake for it until it is watched again. False if that
    cannot be had from this loop."""
    try:
        with select.epoll.fromfd(os.dup(loop_descriptor)) as loop:  # which is closed with it
            loop.modify(descriptor, select.EPOLLIN if watched else 0)
    except OSError:
        return False
    return True


def receive(descriptor: int, buffer: bytearray, size_max: int) -> int:
    """Read into the beginning of the buffer; how much, or -1 if there is nothing or an error."""
    if size_max > len(buffer):
        raise IndexError("more than the buffer holds")
    with socket.socket(fileno=descriptor) as borrowed:
        try:
            return borrowed.recv_into(buffer, size_max, socket.MSG_DONTWAIT)
        except OSError:
            return -1
        finally:
            borrowed.detach()


def receive_soon(descriptor: int, buffer: bytearray, size_max: int, seconds: float) -> int:
    """`receive`, again and again for so long if need be.

    Who is to send may have to run on this processor, so at first it is offered; or on another that shares its
    core with this one, so between two looks nothing is done for a while.
    """
    until_s = monotonic_s() + seconds
    while True:
        os.sched_yield()
        size = receive(descriptor, buffer, size_max)
        if size >= 0 or monotonic_s() >= until_s:
            return size


def send_now(descriptor: int, data: bytes) -> int:
    """Send as much as goes without waiting; how much."""
    with socket.socket(fileno=descriptor) as borrowed:
        try:
            return borrowed.send(data, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        except OSError:
            return 0
        finally:
            borrowed.detach()


def others_wait(loop_descriptor: int, descriptor: int) -> bool:
    """Has the loop something to do for anybody but this socket? (Also if that cannot be told.)"""
    try:
        with select.epoll.fromfd(os.dup(loop_descriptor)) as loop:
            return any(found != descriptor for found, _ in loop.poll(0, 2))
    except OSError:
        return True
