"""Leases of EmberMQ (docs/leases.md): made and settled over HTTP, read over AMQP."""

from __future__ import annotations

import base64
import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlsplit

from pyspark_embermq.arrivals import Arrivals
from pyspark_embermq.broker_link import BrokerLink, until_cancelled
from pyspark_embermq.errors import AMQPSourceError, DataLossError, Denied, Missing, Unreachable
from pyspark_embermq.options import Options

if TYPE_CHECKING:
    import urllib.error

TIMEOUT_S = 30.0
MANAGEMENT_PORT = 15672
OPEN = "open"


@dataclass(frozen=True)
class LeasePart:
    """Messages [start, end) of a lease: what one task reads."""

    queue: str
    lease: str
    start: int
    end: int


class Leases:
    """The leases of one queue."""

    def __init__(self, options: Options, queue: str) -> None:
        self.options = options
        self.queue = queue

    def take(self, name: str, messages_max: int) -> int:
        """Take a lease, or find the one of that name; how many messages it has, 0 when the queue is empty."""
        body = {
            "name": name,
            "max_messages": messages_max,
            "timeout_ms": self.options.lease_timeout_ms,
        }
        if self.options.max_bytes_per_trigger:
            body["max_bytes"] = self.options.max_bytes_per_trigger
        return int(self.ask("POST", "", body)["count"])

    def count_of(self, name: str) -> int:
        """How many messages the open lease of that name has; 0 if there is none."""
        try:
            found = self.ask("GET", f"/{quote(name, safe='')}")
        except Missing:
            return 0
        return int(found["count"]) if found["state"] == OPEN else 0

    def settle(self, name: str) -> None:
        """Its messages are done with; asking twice is fine."""
        try:
            self.ask("POST", f"/{quote(name, safe='')}/settle", {})
        except Missing:
            raise DataLossError(
                f"lease '{name}' of queue '{self.queue}' was over before its batch was committed: its "
                "messages are back in the queue and will be read again. Option 'leaseTimeoutMs' says how "
                "long it lasts"
            ) from None

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        import urllib.error  # here: slow to import, and only leases need HTTP
        import urllib.request

        options = self.options
        parts = urlsplit(options.url)
        base = options.http_url or f"http://{parts.hostname}:{MANAGEMENT_PORT}"
        vhost, queue = quote(options.vhost, safe=""), quote(self.queue, safe="")
        login = f"{unquote(parts.username or 'guest')}:{unquote(parts.password or 'guest')}"
        request = urllib.request.Request(
            f"{base.rstrip('/')}/api/leases/{vhost}/{queue}{path}",
            None if body is None else json.dumps(body).encode(),
            {
                "authorization": "Basic " + base64.b64encode(login.encode()).decode(),
                "content-type": "application/json",
            },
            method=method,
        )
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:
                text = response.read()
        except urllib.error.HTTPError as error:
            raise refusal(error, self.queue) from None
        except OSError as error:
            raise Unreachable(
                f"the broker's management cannot be reached: {error}. Exactly once from a queue needs it; "
                "option 'httpUrl' says where it is"
            ) from None
        return json.loads(text) if text else None


def refusal(error: urllib.error.HTTPError, queue: str) -> AMQPSourceError:
    try:
        reason = json.loads(error.read()).get("reason", "")
    except ValueError:
        reason = ""
    if error.code == 404:
        return Missing(f"no queue '{queue}', or no such lease")
    if error.code == 401:
        return Denied(
            "the broker's management does not let us in: the user needs the tag 'management' for leases"
        )
    return AMQPSourceError(f"a lease of queue '{queue}' was refused: {reason or error.code}")


def parts_of(queue: str, lease: str, count: int, parts: int) -> list[LeasePart]:
    """A lease cut into about equal parts; the same every time."""
    pieces = max(min(parts, count), 1)
    return [
        LeasePart(queue, lease, count * index // pieces, count * (index + 1) // pieces)
        for index in range(pieces)
        if count
    ]


def read(link: BrokerLink, part: LeasePart, wanted: Collection[str]) -> Iterator[Arrivals]:
    """The messages of a part, in order. What is missing is an error, never a shorter batch."""
    arguments: dict[str, object] = {
        "x-lease": part.lease,
        "x-lease-from": part.start,
        "x-lease-to": part.end,
    }
    left = part.end - part.start
    with link.channel(prefetch=None, confirms=False) as channel:
        consumer = channel.consume_columns(part.queue, wanted, no_ack=True, arguments=arguments)
        for arrived in until_cancelled(consumer, link.options):
            left -= len(arrived)
            yield arrived
    if left:
        raise AMQPSourceError(
            f"lease '{part.lease}' of queue '{part.queue}' ended early; messages missing: {left}"
        )


def settle(queue: str, lease: str, **options: Any) -> None:
    """Settle a lease that was read with mode "lease": settle("orders", "run-7", url=..., http_url=...)."""
    Leases(Options(**options), queue).settle(lease)
