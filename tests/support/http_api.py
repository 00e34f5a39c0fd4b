"""The API without sockets: a broker in memory, asked as HTTP would ask it."""

from __future__ import annotations

import asyncio
import base64
import json
import math
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

from embermq.amqp.session_list import Sessions
from embermq.broker.broker import Broker
from embermq.broker.security.password import Secret, quick_digest
from embermq.broker.security.user import Permission, User
from embermq.broker.turn import Turn
from embermq.http.server.context import Context, Listener
from embermq.http.server.dispatcher import Api
from embermq.http.server.request import Incoming
from embermq.http.server.routes import all_routes

SECRET = Secret.of(b"secret")  # hashed once for all: hashing is slow, as it should be
ROLES = ("none", "management", "policymaker", "monitoring", "administrator")


@dataclass(frozen=True)
class Reply:
    status: int
    body: bytes
    headers: dict[str, str]
    content_type: str

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def reason(self) -> Any:
        return self.json["reason"]


class Desk:
    """Asks and is answered. There is a user for each tag, of the same name and with the password `secret`."""

    def __enter__(self) -> Self:
        self.runner = asyncio.Runner()
        loop = self.runner.get_loop()
        self.clock: Callable[[], float] = time.time
        self.broker = Broker(Turn(loop.call_soon, self.now), call_later=loop.call_later)
        self.broker.create_defaults()
        for role in ROLES:
            tags = frozenset() if role == "none" else frozenset({role})
            user = User(role, SECRET, tags, verified=quick_digest(b"secret"), verified_until=math.inf)
            self.broker.users.add(user)
            self.broker.users.grant(user, "/", Permission())
        context = Context(self.broker, Sessions(list, loop.time), [Listener("amqp", "127.0.0.1", 5672)])
        self.api = Api(context, all_routes())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.runner.close()

    def now(self) -> float:
        return self.clock()

    def set_clock(self, clock: Callable[[], float]) -> None:
        self.clock = clock

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.runner.run(work)

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        login: str = "guest:guest",
        raw: bytes | None = None,
        headers: dict[str, str] | None = None,
        peer: str = "127.0.0.1",
    ) -> Reply:
        sent = raw if raw is not None else b"" if body is None else json.dumps(body).encode()
        known = {"host": "localhost:15672", **(headers or {})}
        if login:
            known["authorization"] = "Basic " + base64.b64encode(login.encode()).decode()
        answered = self.runner.run(self.api.answer(incoming(method, path, known, sent, peer)))
        return Reply(answered.status, answered.body, dict(answered.headers), answered.content_type)

    def get(self, path: str, **more: Any) -> Any:
        reply = self.ask("GET", path, **more)
        assert reply.status == 200, (reply.status, reply.body)
        return reply.json

    def put(self, path: str, body: object = None, status: int = 201) -> None:
        reply = self.ask("PUT", path, body if body is not None else {})
        assert reply.status == status, (reply.status, reply.body)

    def publish(self, queue: str, payload: str, **properties: object) -> None:
        message = {
            "routing_key": queue,
            "payload": payload,
            "payload_encoding": "string",
            "properties": properties,
        }
        assert self.ask("POST", "/api/exchanges/%2F/amq.default/publish", message).json == {"routed": True}

    def names(self, path: str, **more: Any) -> list[str]:
        found = self.get(path, **more)
        return [thing["name"] for thing in (found["items"] if isinstance(found, dict) else found)]


def incoming(
    method: str, path: str, headers: dict[str, str], body: bytes = b"", peer: str = "127.0.0.1"
) -> Incoming:
    async def read_body(bytes_max: int) -> bytes:
        assert len(body) <= bytes_max, f"{method} {path} takes {bytes_max} bytes"
        return body

    return Incoming(method, path, headers, peer, read_body)


def in_path(name: str) -> str:
    return quote(name, safe="")
