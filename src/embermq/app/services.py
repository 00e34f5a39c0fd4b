"""How services are run: plug-ins in threads, with a time limit; built-in ones as requests to the HTTP API.

A service that fails, takes too long or has too much to do is an error to the client that asked, nothing else.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from embermq.broker.security.user import User
from embermq.broker.service import Done, Services
from embermq.http.server.dispatcher import Api
from embermq.http.server.request import Incoming, Response
from embermq.plugin import Reply, Request, Service

log = logging.getLogger("embermq.service")

THREADS = 4
WAITING_MAX = 256
BUILT_IN_S_MAX = 30.0
OK = 200


class ServiceError(Exception):
    """What the client is told."""


class ServiceRunner:
    def __init__(self, services: Services, api: Api, loop: asyncio.AbstractEventLoop) -> None:
        self.api = api
        self.loop = loop
        self.threads = ThreadPoolExecutor(THREADS, "embermq-service")
        self.tasks: set[asyncio.Task[None]] = set()
        self.built_in: dict[str, Callable[[Request, User], Awaitable[object]]] = {
            "amq.echo": self.echo,
            "amq.time": self.time,
            "amq.status": self.status,
            "amq.queues": self.queues,
            "amq.resolve": self.resolve,
            "amq.query": self.query,
        }
        for name in self.built_in:
            services.known[name] = Service(name, refuse, BUILT_IN_S_MAX)
        services.run = self.run

    def run(self, service: Service, request: Request, user: User, done: Done) -> None:
        if len(self.tasks) >= WAITING_MAX:
            done(ServiceError(f"service {service.name} has {WAITING_MAX} requests to answer already"))
            return
        task = self.loop.create_task(self.answer(service, request, user, done))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def answer(self, service: Service, request: Request, user: User, done: Done) -> None:
        answer: object
        try:
            async with asyncio.timeout(service.timeout_s):
                if service.name in self.built_in:
                    answer = await self.built_in[service.name](request, user)
                else:
                    answer = await self.loop.run_in_executor(self.threads, service.answer, request)
        except ServiceError as error:
            answer = error
        except TimeoutError:
            answer = ServiceError(f"service {service.name} took more than {service.timeout_s:g} s")
        except Exception as error:
            log.exception("service %s", service.name)
            answer = ServiceError(f"service {service.name} failed: {type(error).__name__}: {error}")
        done(answer)

    def close(self) -> None:
        for task in self.tasks:
            task.cancel()
        self.threads.shutdown(wait=False, cancel_futures=True)

    # -- built in

    async def echo(self, request: Request, user: User) -> object:
        properties = request.properties
        content_type = properties.content_type or "application/octet-stream"
        return Reply(request.body, content_type, properties.headers or {})

    async def time(self, request: Request, user: User) -> object:
        now = datetime.now(UTC)
        return {"time": now.isoformat(), "timestamp": int(now.timestamp())}

    async def status(self, request: Request, user: User) -> object:
        return await self.ask(user, "GET", "/api/overview")

    async def queues(self, request: Request, user: User) -> object:
        return await self.ask(user, "GET", f"/api/queues/{quote(request.vhost, safe='')}")

    async def query(self, request: Request, user: User) -> object:
        """`{"path": "/api/..."}`: any read of the HTTP API, as this user may read it."""
        path = told(request).get("path")
        if not isinstance(path, str) or not path.startswith("/api/"):
            raise ServiceError('amq.query expects {"path": "/api/..."}')
        return await self.ask(user, "GET", path)

    async def resolve(self, request: Request, user: User) -> object:
        """`{"exchange": ..., "routing_key": ..., "headers": ...}`: where such a message would go, and why."""
        question = told(request)
        name = str(question.pop("exchange", "")) or "amq.default"
        vhost = quote(request.vhost, safe="")
        return await self.ask(
            user, "POST", f"/api/exchanges/{vhost}/{quote(name, safe='')}/explain", question
        )

    async def ask(self, user: User, method: str, path: str, body: object = None) -> Reply:
        data = b"" if body is None else json.dumps(body).encode()

        async def read_body(bytes_max: int) -> bytes:
            if len(data) > bytes_max:
                raise ServiceError(f"a request of more than {bytes_max} bytes")
            return data

        response: Response = await self.api.answer(
            Incoming(method, path, {"host": "localhost"}, "127.0.0.1", read_body, user=user)
        )
        if response.endless is not None:
            await response.endless.aclose()
            raise ServiceError(f"{path} does not end: it is for HTTP only")
        if response.status != OK:
            raise ServiceError(f"{response.status}: {response.body.decode(errors='replace')}")
        return Reply(response.body, response.content_type)


def told(request: Request) -> dict[str, Any]:
    try:
        question = json.loads(request.body or b"{}")
    except ValueError:
        question = None
    if not isinstance(question, dict):
        raise ServiceError(f"{request.service} expects a JSON object")
    return question


def refuse(request: Request) -> object:
    """Built-in services are not run by this."""
    raise ServiceError(request.service)
