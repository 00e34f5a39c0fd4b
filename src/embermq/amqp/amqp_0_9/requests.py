"""Requests and responses of one channel (000, 4.4): their numbers, and the answers kept for a failover.

    request frame   | request-id (8) | response-mark (8) | method ...
    response frame  | response-id (8) | request-id (8) | batch-offset (4) | method ...

Both peers number their requests, and their responses, from 1 on. A response is for the requests from
request-id to request-id + batch-offset. The response-mark says up to where the other peer's responses have
been processed: those before it need not be kept any more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from struct import Struct
from typing import NamedTuple

from embermq.errors import CommandInvalid, ResourceFault
from embermq.wire.constants import FRAME_REQUEST, FRAME_RESPONSE
from embermq.wire.frame import frame

REQUEST_HEAD = Struct(">QQ")
RESPONSE_HEAD = Struct(">QQI")
KEPT_MAX = 10_000  # responses that a client has not confirmed by its response-mark
BATCH_OFFSET_MAX = 0xFFFF_FFFF


class Response(NamedTuple):
    response_id: int
    request_id: int
    batch_offset: int
    payload: bytes

    def frame(self, channel: int) -> bytes:
        head = RESPONSE_HEAD.pack(self.response_id, self.request_id, self.batch_offset)
        return frame(FRAME_RESPONSE, channel, head + self.payload)


class Delivery(NamedTuple):
    """A message that is out with the client: enough to send it once more under the same numbers."""

    tag: int
    destination: str
    first_id: int  # of the requests that it took
    room: int  # in the payload of one


class IncomingRequests:
    """The requests of a client, each executed once."""

    def __init__(self) -> None:
        self.last_id = 0
        self.last_response_id = 0
        self.kept: deque[Response] = deque()
        self.forgotten_id = 0  # answers to requests up to here may be gone

    def is_new(self, request_id: int, response_mark: int) -> bool:
        """False: it was sent before, and is to be answered as it was then."""
        while self.kept and self.kept[0].response_id < response_mark:
            self.forget()
        if request_id == 0 or request_id > self.last_id + 1:
            raise CommandInvalid(f"request {request_id} follows request {self.last_id}")
        return request_id > self.last_id

    def answers(self, request_id: int) -> Iterator[Response]:
        """The response that a request had, none if it is still at work."""
        for kept in self.kept:
            if kept.request_id <= request_id <= kept.request_id + kept.batch_offset:
                yield kept
                return
        if request_id <= self.forgotten_id:
            raise ResourceFault(f"the response to request {request_id} is not kept any more")

    def respond(self, answered: Iterable[tuple[int, bytes]]) -> Iterator[Response]:
        """Number and keep the responses to these requests; equal ones of neighbours are one."""
        first, count, payload = 0, 0, b""
        for request_id, answer in answered:
            if count and request_id == first + count and answer == payload:
                count += 1
                continue
            if count:
                yield self.keep(first, count, payload)
            first, count, payload = request_id, 1, answer
        if count:
            yield self.keep(first, count, payload)

    def keep(self, first: int, count: int, payload: bytes) -> Response:
        self.last_response_id += 1
        response = Response(self.last_response_id, first, count - 1, payload)
        self.kept.append(response)
        if len(self.kept) > KEPT_MAX:
            self.forget()
        return response

    def forget(self) -> None:
        gone = self.kept.popleft()
        self.forgotten_id = max(self.forgotten_id, gone.request_id + gone.batch_offset)


class OutgoingRequests:
    """Requests of ours that the client has not answered yet, with what each is about."""

    def __init__(self) -> None:
        self.last_id = 0
        self.response_mark = 0
        self.unanswered: dict[int, Delivery] = {}  # by request-id

    def frame(self, channel: int, payload: bytes, delivery: Delivery | None = None) -> bytes:
        self.last_id += 1
        if delivery is not None:
            self.unanswered[self.last_id] = delivery
        return frame(FRAME_REQUEST, channel, REQUEST_HEAD.pack(self.last_id, self.response_mark) + payload)

    def take_answered(self, response_id: int, first: int, batch_offset: int) -> list[int]:
        """The delivery tags that a response is about."""
        if response_id <= self.response_mark:
            return []  # sent again after a failover
        if first + batch_offset > self.last_id:
            raise CommandInvalid(
                f"response to request {first + batch_offset}, the last one is {self.last_id}"
            )
        self.response_mark = response_id
        if batch_offset < len(self.unanswered):
            ids = [n for n in range(first, first + batch_offset + 1) if n in self.unanswered]
        else:
            ids = [n for n in self.unanswered if first <= n <= first + batch_offset]
        return [self.unanswered.pop(request_id).tag for request_id in ids]
