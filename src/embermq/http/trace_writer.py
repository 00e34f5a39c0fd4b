"""Traces: what the firehose tells, written to files. RabbitMQ's tracing plugin, with an end to the files.

A trace has a queue of its own, bound to `amq.rabbitmq.trace`, and looks into it a few times a second; a
thread writes. Where messages come faster than they are written down, the queue drops the oldest; a file that
has grown too long becomes `NAME.log.1`, in place of the one before. Traces end with the broker; files stay.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import datetime
import json
import logging
import os
import re
from dataclasses import dataclass
from typing import Any

from embermq.broker.firehose import TRACE_EXCHANGE, set_tracing
from embermq.broker.message.message import Message
from embermq.broker.queue.queue import Queue
from embermq.broker.vhost import VirtualHost
from embermq.http.server.cooperative import Steps, StepScheduler
from embermq.http.views.json_values import decoded, plain

log = logging.getLogger("embermq.http")
View = dict[str, Any]

TEXT, JSON = "text", "json"
CHECK_INTERVAL_S = 0.2
FILE_BYTES_MAX = 16 * 1024 * 1024
WRITE_BYTES_MAX = 1024 * 1024  # gathered for one write
WAITING_MESSAGES_MAX = 10_000
WAITING_BYTES_MAX = 32 * 1024 * 1024
TRACES_MAX = 20
NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")
FILE = re.compile(NAME.pattern + r"\.log(\.1)?")
RULE = "=" * 80


@dataclass(frozen=True)
class Wanted:
    """What a trace is to be."""

    name: str
    format: str
    pattern: str
    payload_bytes_max: int | None = None

    def view(self) -> View:
        view: View = {"name": self.name, "format": self.format, "pattern": self.pattern}
        if self.payload_bytes_max is not None:
            view["max_payload_bytes"] = self.payload_bytes_max
        return view


class Trace:
    def __init__(self, vhost: VirtualHost, wanted: Wanted, directory: str, scheduler: StepScheduler) -> None:
        self.vhost = vhost
        self.scheduler = scheduler
        self.wanted = wanted
        self.path = os.path.join(directory, f"{wanted.name}.log")
        bounds: dict[str, object] = {
            "x-max-length": WAITING_MESSAGES_MAX,
            "x-max-length-bytes": WAITING_BYTES_MAX,
        }
        self.queue: Queue = vhost.declare_queue(
            "", owner=self, durable=False, exclusive=True, auto_delete=False, arguments=bounds
        )
        vhost.bind(vhost.exchanges[TRACE_EXCHANGE], self.queue, wanted.pattern, {})
        self.task = asyncio.get_running_loop().create_task(self.go_on())
        self.ending = False

    @property
    def over(self) -> bool:
        """Its virtual host, or its queue, was deleted."""
        return self.queue.deleted

    def view(self) -> View:
        queue = {"name": self.queue.name, "vhost": self.vhost.name, "exclusive": True}
        return {**self.wanted.view(), "vhost": self.vhost.name, "queue": queue}

    async def go_on(self) -> None:
        try:
            while not self.over:
                more = await self.write_down()
                if self.ending and not more:
                    return
                if not more:
                    await asyncio.sleep(CHECK_INTERVAL_S)
        except OSError as error:
            log.error("the trace %r ends: %s", self.wanted.name, error)
            self.close()

    async def write_down(self) -> bool:
        """What waits in the queue, or a part of it; true where more may be waiting."""
        steps, gathered = Steps(self.scheduler), bytearray()
        while len(gathered) < WRITE_BYTES_MAX and not self.over:
            entry = self.queue.get(no_ack=True)
            if entry is None:
                break
            gathered += told(entry.message, self.wanted)
            await steps.pause()
        else:
            await asyncio.to_thread(append, self.path, bytes(gathered))
            return not self.over
        if gathered:
            await asyncio.to_thread(append, self.path, bytes(gathered))
        return False

    async def end(self) -> None:
        """Write down what is there, and be gone."""
        self.ending = True
        await self.task
        self.close()

    def close(self) -> None:
        if not self.queue.deleted:
            self.vhost.delete_queue(self.queue)


class Traces:
    def __init__(self, directory: str, scheduler: StepScheduler) -> None:
        self.scheduler = scheduler
        self.directory = directory  # empty for a broker in memory, which has nowhere to write to
        self.running: dict[tuple[str, str], Trace] = {}  # by virtual host and name
        self.switched_on: set[VirtualHost] = set()  # by us: they were not traced before

    def start(self, vhost: VirtualHost, wanted: Wanted) -> None:
        if not self.directory:
            raise OSError("a broker in memory keeps no files")
        os.makedirs(self.directory, mode=0o700, exist_ok=True)
        open(os.path.join(self.directory, f"{wanted.name}.log"), "ab").close()
        if vhost.trace is None:
            self.switched_on.add(vhost)
            set_tracing(vhost, True)
        self.running[vhost.name, wanted.name] = Trace(vhost, wanted, self.directory, self.scheduler)

    def all(self) -> list[Trace]:
        for key in [key for key, trace in self.running.items() if trace.over]:
            del self.running[key]
        return list(self.running.values())

    def of(self, vhost: VirtualHost) -> list[Trace]:
        return [trace for trace in self.all() if trace.vhost is vhost]

    async def stop(self, trace: Trace) -> None:
        await trace.end()
        self.running.pop((trace.vhost.name, trace.wanted.name), None)
        if trace.vhost in self.switched_on and not self.of(trace.vhost):
            self.switched_on.discard(trace.vhost)
            set_tracing(trace.vhost, False)

    async def stop_all(self) -> None:
        for trace in self.all():
            with contextlib.suppress(OSError):
                await self.stop(trace)

    # -- files

    def files(self) -> list[View]:
        if not self.directory:
            return []
        try:
            names = sorted(name for name in os.listdir(self.directory) if FILE.fullmatch(name))
        except FileNotFoundError:
            return []
        sizes = {name: os.stat(os.path.join(self.directory, name)).st_size for name in names}
        return [{"name": name, "size": size} for name, size in sizes.items()]

    def file(self, name: str) -> str | None:
        """The path of a file of ours; None for names that are no such thing."""
        path = os.path.join(self.directory, name)
        return path if self.directory and FILE.fullmatch(name) and os.path.isfile(path) else None


def append(path: str, data: bytes) -> None:
    """Runs on a thread."""
    with contextlib.suppress(FileNotFoundError):
        if os.stat(path).st_size + len(data) > FILE_BYTES_MAX:
            os.replace(path, f"{path}.1")
    with open(path, "ab") as file:
        file.write(data)


def told(message: Message, wanted: Wanted) -> bytes:
    """One message of the firehose, as a record of the file."""
    headers = message.properties.headers or {}
    body = message.body[: wanted.payload_bytes_max]
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
    action, _, subject = message.routing_key.partition(".")
    published = action == "publish"
    if wanted.format == JSON:
        record = {
            "timestamp": now,
            "type": "published" if published else "received",
            "node": headers.get("node"),
            "connection": headers.get("connection"),
            "vhost": headers.get("vhost"),
            "user": headers.get("user"),
            "channel": headers.get("channel"),
            "exchange": headers.get("exchange_name"),
            "queue": "none" if published else subject,
            "routed_queues": headers.get("routed_queues", "none"),
            "routing_keys": headers.get("routing_keys"),
            "properties": plain(headers.get("properties")),
            "payload": base64.b64encode(body).decode("ascii"),
        }
        return json.dumps(record, separators=(",", ":")).encode() + b"\n"
    lines = {
        "Node": headers.get("node"),
        "Connection": headers.get("connection"),
        "Virtual host": headers.get("vhost"),
        "User": headers.get("user"),
        "Channel": headers.get("channel"),
        "Exchange": headers.get("exchange_name"),
        "Routing keys": json.dumps(headers.get("routing_keys")),
        **({"Routed queues": json.dumps(headers.get("routed_queues"))} if published else {"Queue": subject}),
        "Properties": json.dumps(plain(headers.get("properties"))),
    }
    shown = "".join(f"{name + ':':14} {value}\n" for name, value in lines.items())
    title = f"{now}: Message {'published' if published else 'received'}"
    return f"\n{RULE}\n{title}\n\n{shown}Payload:\n{decoded(body)[0]}\n".encode("utf-8", "backslashreplace")
