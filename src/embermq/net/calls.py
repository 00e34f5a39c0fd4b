"""System calls on the socket of a connection that somebody stays with (see `attention`).

`calls.pyx` beside this file is the compiled twin. None of them raises: what is wrong with the socket, the
loop finds out as well, and knows what to do.
"""

from __future__ import annotations

import select
import socket

MINE = 1  # the socket has something to read (or is at its end)
OTHERS = 2  # it has not, but somebody else has something for the loop


def wait_for(descriptor: int, loop_descriptor: int, milliseconds: int) -> int:
    """Wait for the socket (-1: for none), and for all that would wake the loop; 0 if nothing came."""
    poll = select.poll()
    if descriptor >= 0:
        poll.register(descriptor, select.POLLIN)
    poll.register(loop_descriptor, select.POLLIN)
    ready = [found for found, _ in poll.poll(milliseconds)]
    if descriptor in ready:
        return MINE
    return OTHERS if ready else 0


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


def send_now(descriptor: int, data: bytes) -> int:
    """Send as much as goes without waiting; how much."""
    with socket.socket(fileno=descriptor) as borrowed:
        try:
            return borrowed.send(data, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        except OSError:
            return 0
        finally:
            borrowed.detach()
