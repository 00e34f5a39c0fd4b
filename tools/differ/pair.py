"""Two brokers, and what comes of a program on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from tools.brokers import Broker
from tools.differ.compare import Difference, compare
from tools.differ.program import Program
from tools.differ.side import Side

PLUGINS = (
    "rabbitmq_consistent_hash_exchange",
    "rabbitmq_random_exchange",
)  # of RabbitMQ, for types that we have


class Pair:
    """EmberMQ first, then RabbitMQ."""

    def __init__(
        self,
        ember: Broker,
        rabbit: Broker,
        vhost: str = "/",
        restarts: Sequence[Callable[[], object] | None] = (None, None),
    ) -> None:
        self.sides = [Side(ember, vhost, restarts[0]), Side(rabbit, vhost, restarts[1])]
        self.threads = ThreadPoolExecutor(2)

    def difference(self, program: Program) -> Difference | None:
        ours, theirs = self.threads.map(lambda side: side.run(program), self.sides)
        return compare(program, ours, theirs)

    def lasting(self, program: Program) -> Difference | None:
        """A difference that is there every time: what comes and goes is a matter of timing."""
        found = self.difference(program)
        if found is None or found.deliberate:
            return found
        again = self.difference(program)
        return found if again is not None and again.key == found.key else None

    def close(self) -> None:
        for side in self.sides:
            side.close()
        self.threads.shutdown()
