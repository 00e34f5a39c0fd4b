"""Login admission: how many connections may be logging in at a time, in all and for each address.

Every listener asks here before it spends anything on a connection: before TLS, before a proxy's header is
read. A connection without a place stands in line as a socket that is not read from; that costs a file and no
more, and a crowd that comes back after a restart is let in as fast as its logins go. A free place goes to the
address that has the fewest, and an address never has more places than are free: so there is one for an
address that is new, however many others are silent. The line follows the same rule (one address alone gets
half of it); what finds no room in it is refused.

Places and line together take at most half of the files that the process may have open, and a socket that
would be one of the last is refused: those are for the store, the logs and connections that have logged in.

Addresses of IPv6 count by their network of 64 bits, for that is what one customer has.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import socket
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from embermq.net.descriptors import file_limit

log = logging.getLogger("embermq.net")

PLACES_FILES_PART = 4  # places take at most this part of the files that we may have open ...
LINE_FILES_PART = 4  # ... and so does the line
RESERVE_FILES_PART = 8  # for what is not a socket: new connections leave so many free
TELL_EVERY_S = 10.0
IPV6_NETWORK_BITS = 64


@dataclass(frozen=True)
class Room:
    """How many there may be."""

    places: int = 1000
    per_address: int = 300
    line: int = 20_000


class Place:
    """Taken by a connection that is logging in; leaving it twice is harmless."""

    __slots__ = ("address", "admission")

    def __init__(self, admission: LoginAdmission, address: str) -> None:
        self.admission: LoginAdmission | None = admission
        self.address = address

    def leave(self) -> None:
        admission, self.admission = self.admission, None
        if admission is not None:
            admission.left(self.address)


# What happens with a connection whose turn has come.
Enter = Callable[[socket.socket, Place], None]


class LoginAdmission:
    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.places: dict[str, int] = {}  # taken, by address
        self.taken_count = 0
        self.line: dict[str, deque[tuple[socket.socket, Enter]]] = {}
        self.waiting_count = 0
        self.ranks: dict[int, dict[str, None]] = {}  # addresses in line, by the places that they have
        self.refused_count = 0
        self.told_at = -TELL_EVERY_S
        self.told_refused_count = 0
        self.closed = False
        self.handshaking = asyncio.Lock()  # one by one, at whichever port
        self.set_room(Room())

    def set_room(self, room: Room) -> None:
        """Connections that are here already stay."""
        files = file_limit()
        self.room = room
        self.places_max = min(room.places, max(1, files // PLACES_FILES_PART))
        self.line_max = min(room.line, files // LINE_FILES_PART)
        self.descriptor_max = files - files // RESERVE_FILES_PART
        self.let_in()

    def may_enter(self, taken: int) -> bool:
        """One more place for an address that has taken so many."""
        return taken < min(self.room.per_address, self.places_max - self.taken_count)

    def arrive(self, sock: socket.socket, address: str, enter: Enter) -> None:
        address = network_of(address)
        in_line = self.line.get(address)
        # A new descriptor is the lowest that is free: with this one, all below it are in use.
        if self.closed or sock.fileno() >= self.descriptor_max:
            self.refuse(sock, address)
        elif self.may_enter(self.places.get(address, 0)):
            enter(sock, self.place(address))
        elif (len(in_line) if in_line else 0) >= self.line_max - self.waiting_count:
            self.refuse(sock, address)
        else:
            if in_line is None:
                in_line = self.line[address] = deque()
                self.ranks.setdefault(self.places.get(address, 0), {})[address] = None
            in_line.append((sock, enter))
            self.waiting_count += 1
            self.tell(address)

    def refuse(self, sock: socket.socket, address: str) -> None:
        sock.close()
        if not self.closed:
            self.refused_count += 1
            self.tell(address)

    def place(self, address: str) -> Place:
        self.count(address, 1)
        return Place(self, address)

    def left(self, address: str) -> None:
        self.count(address, -1)
        self.let_in()

    def count(self, address: str, more: int) -> None:
        before = self.places.pop(address, 0)
        after = before + more
        self.taken_count += more
        if after:
            self.places[address] = after
        if address in self.line:
            self.leave_rank(address, before)
            self.ranks.setdefault(after, {})[address] = None

    def leave_rank(self, address: str, taken: int) -> None:
        rank = self.ranks[taken]
        del rank[address]
        if not rank:
            del self.ranks[taken]

    def let_in(self) -> None:
        """The address with the fewest places comes first; among equals, the one that has waited longest."""
        while self.ranks and self.may_enter(fewest := min(self.ranks)):
            address = next(iter(self.ranks[fewest]))
            in_line = self.line[address]
            sock, enter = in_line.popleft()
            self.waiting_count -= 1
            if not in_line:
                del self.line[address]
                self.leave_rank(address, fewest)
            if not has_gone(sock):
                enter(sock, self.place(address))

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
        """Refuse what stands in line, and everything that still comes."""
        self.closed = True
        self.ranks.clear()
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
    """Has the client gone while it waited? Then its socket is closed."""
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
