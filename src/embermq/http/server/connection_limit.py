"""The limit of connections: when it is reached, a newcomer replaces one that waits for its client.

The address with the most connections loses one of its own for a newcomer: the oldest one that waits for its
client (for a request, or for an answer to be read). So a client that opens thousands of connections closes
its own, and the health check that comes from elsewhere, or after them, is heard.
"""

from __future__ import annotations

from typing import Protocol


class Connection(Protocol):
    address: str  # or the network that counts as one
    waits_for_client: bool

    def abort(self) -> None: ...


class Places:
    def __init__(self, count_max: int, interrupts: bool = False) -> None:
        self.count_max = count_max
        self.interrupts = interrupts  # the oldest goes also where each of them is being worked for
        self.count = 0
        self.by_address: dict[str, dict[Connection, None]] = {}  # the oldest first

    def __contains__(self, connection: Connection) -> bool:
        return connection in self.by_address.get(connection.address, ())

    def enter(self, connection: Connection) -> bool:
        """False where all that are here are being worked for."""
        if self.count >= self.count_max and not self.make_room(connection.address):
            return False
        self.by_address.setdefault(connection.address, {})[connection] = None
        self.count += 1
        return True

    def leave(self, connection: Connection) -> None:
        if connection not in self:
            return
        neighbours = self.by_address[connection.address]
        del neighbours[connection]
        self.count -= 1
        if not neighbours:
            del self.by_address[connection.address]

    def used(self, connection: Connection) -> None:
        """It is the newest again."""
        neighbours = self.by_address.get(connection.address, {})
        if connection in neighbours:
            del neighbours[connection]
            neighbours[connection] = None

    def make_room(self, address: str) -> bool:
        crowds = sorted(self.by_address.values(), key=len, reverse=True)
        for crowd in (*crowds[:1], self.by_address.get(address, {}), *crowds[1:]):
            for connection in crowd:
                if connection.waits_for_client:
                    return self.send_away(connection)
        return self.interrupts and self.send_away(next(iter(crowds[0])))

    def send_away(self, connection: Connection) -> bool:
        self.leave(connection)
        connection.abort()
        return True
