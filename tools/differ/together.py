"""Many programs at a time, each in a virtual host of its own, on the same two brokers.

A restart takes seconds, and waiting until nothing happens any more is mostly waiting: both are shared. Every
program of a batch has one restart, or none has.
"""

from __future__ import annotations

import http.client
from base64 import b64encode
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, BrokenBarrierError

from tools.brokers import Broker
from tools.differ.compare import Difference
from tools.differ.pair import Pair
from tools.differ.program import Program

LOGIN = {"authorization": "Basic " + b64encode(b"guest:guest").decode()}
RESTART_SECONDS_MAX = 120


def make_vhost(broker: Broker, name: str) -> None:
    connection = http.client.HTTPConnection(broker.host, broker.http_port, timeout=60)
    connection.request("PUT", f"/api/vhosts/{name}", headers=LOGIN)
    status = connection.getresponse().status
    connection.close()
    assert status in (201, 204), (broker.name, name, status)


class Together:
    """As many pairs as there are programs in a batch."""

    def __init__(self, ember: Broker, rabbit: Broker, count: int) -> None:
        self.barriers = [Barrier(count, restarting(broker)) for broker in (ember, rabbit)]
        self.pairs: list[Pair] = []
        for number in range(count):
            name = f"differ{number}"
            for broker in (ember, rabbit):
                make_vhost(broker, name)
            self.pairs.append(Pair(ember, rabbit, name, [waiting(barrier) for barrier in self.barriers]))
        self.threads = ThreadPoolExecutor(count)

    def differences(self, programs: list[Program]) -> list[Difference | None]:
        assert len(programs) <= len(self.pairs)
        for barrier in self.barriers:
            barrier.reset()
        # All or none wait for the restart, so a batch that is too small is filled with its last program.
        filled = programs + [programs[-1]] * (len(self.pairs) - len(programs))
        found = self.threads.map(lambda pair, program: pair.difference(program), self.pairs, filled)
        return list(found)[: len(programs)]

    def close(self) -> None:
        for pair in self.pairs:
            pair.close()
        self.threads.shutdown()


def restarting(broker: Broker) -> Callable[[], None]:
    def restart() -> None:
        broker.restart()

    return restart


def waiting(barrier: Barrier) -> Callable[[], object]:
    def restart() -> None:
        try:
            barrier.wait(RESTART_SECONDS_MAX)
        except BrokenBarrierError:
            raise RuntimeError("a program of this batch ended before the restart") from None

    return restart
