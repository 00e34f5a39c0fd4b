"""The lobby: those who have not logged in yet. It has few places, in all and for each address.

Who finds no place stands in line, as a socket that nobody reads from: that costs a file and no more, and a
crowd that comes back after a restart is let in as fast as its logins go. Places that become free go to the
addresses in line by turns, so that whoever sends thousands waits for them alone. The line has an end, too: an
address may have as many in line as there is room left (so one alone gets half of it, and there is always room
for another address); more are refused.

Addresses of IPv6 count by their network of 64 bits, for that is what one customer has.
"""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import resource
import socket
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

log = logging.getLogger("embermq.net")

FILES_PART = 2  # the line takes at most this part of the files that we may have open
TELL_EVERY_S = 10.0
IPV6_NETWORK_BITS = 64


@dataclass(frozen=True)
class Room:
    """How many there may be."""

    places: int = 1000
    per_address: int = 300
    line: int = 20_000


class Place:
    """Taken by one who is logging in; left once, however often it is said."""

    __slots__ = ("address", "lobby")

    def __init__(self, lobby: Lobby, address: str) -> None:
        self.lobby: Lobby | None = lobby
        self.address = address

    def leave(self) -> None:
        lobby, self.lobby = self.lobby, None
        if lobby is not None:
            lobby.left(self.address)


# What happens with a connection whose turn has come.
Enter = Callable[[socket.socket, Place], None]


class Lobby:
    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.places: dict[str, int] = {}  # taken, by address
        self.taken_count = 0
        self.line: dict[str, deque[tuple[socket.socket, Enter]]] = {}
        self.waiting_count = 0
        self.turns: deque[str] = deque()  # addresses in line that may have another place
        self.refused_count = 0
        self.told_at = -TELL_EVERY_S
        self.told_refused_count = 0
        self.set_room(Room())

    def set_room(self, room: Room) -> None:
        """Those who are here already stay."""
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self.room = room
        self.line_max = room.line if files < 0 else min(room.line, files // FILES_PART)
        self.turns = deque(address for address in self.line if self.may_enter(address))
        self.let_in()

    def may_enter(self, address: str) -> bool:
        return self.places.get(address, 0) < self.room.per_address

    def arrive(self, sock: socket.socket, address: str, enter: Enter) -> None:
        address = network_of(address)
        if self.taken_count < self.room.places and self.may_enter(address):
            enter(sock, self.place(address))
            return
        in_line = self.line.get(address)
        if (len(in_line) if in_line else 0) >= self.line_max - self.waiting_count:
            self.refused_count += 1
            self.tell(address)
            sock.close()
            return
        if in_line is None:
            in_line = self.line[address] = deque()
            if self.may_enter(address):
                self.turns.append(address)
        in_line.append((sock, enter))
        self.waiting_count += 1
        self.tell(address)

    def place(self, address: str) -> Place:
        self.places[address] = self.places.get(address, 0) + 1
        self.taken_count += 1
        return Place(self, address)

    def left(self, address: str) -> None:
        count = self.places.pop(address) - 1
        self.taken_count -= 1
        if count:
            self.places[address] = count
        if count == self.room.per_address - 1 and address in self.line:
            self.turns.append(address)
        self.let_in()

    def let_in(self) -> None:
        while self.turns and self.taken_count < self.room.places:
            address = self.turns.popleft()
            in_line = self.line[address]
            sock, enter = in_line.popleft()
            self.waiting_count -= 1
            here = not has_gone(sock)
            place = self.place(address) if here else None
            if not in_line:
                del self.line[address]
            elif self.may_enter(address):
                self.turns.append(address)
            if place is not None:
                enter(sock, place)

    def tell(self, address: str) -> None:
        """Now and then, not for each."""
        now = self.clock()
        if now - self.told_at < TELL_EVERY_S:
            return
        refused = self.refused_count - self.told_refused_count
        self.told_at, self.told_refused_count = now, self.refused_count
        log.warning(
            "many connections have to log in: %d are at it (%d from %s), %d stand in line, %d were refused",
            self.taken_count,
            self.places.get(address, 0),
            address,
            self.waiting_count,
            refused,
        )

    def close(self) -> None:
        """Send home who stands in line."""
        self.turns.clear()
        for in_line in self.line.values():
            for sock, _ in in_line:
                sock.close()
        self.line.clear()
        self.waiting_count = 0


def network_of(address: str) -> str:
    if ":" not in address:
        return address
    try:
        ip = ipaddress.IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    if ip.ipv4_mapped is not None:
        return str(ip.ipv4_mapped)
    return str(ipaddress.IPv6Network((ip, IPV6_NETWORK_BITS), strict=False))


def has_gone(sock: socket.socket) -> bool:
    """Whoever gave up while standing in line; its socket is closed then."""
    try:
        gone = not sock.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except OSError:
        gone = True
    if gone:
        with contextlib.suppress(OSError):
            sock.close()
    return gone
