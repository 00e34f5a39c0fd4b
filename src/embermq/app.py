"""The composition root: puts the rooms together and runs them until told to stop."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
from collections.abc import Callable

from embermq import __version__
from embermq.amqp.connection import Connection
from embermq.amqp.shell import Limits, Shell
from embermq.broker.broker import Broker
from embermq.broker.turn import Turn
from embermq.config import Config
from embermq.net.server import Server

log = logging.getLogger("embermq")

# Messages are no garbage to collect: they hold bytes and point at nothing that points back. Collections are
# for what is rare, so they may be rare themselves.
GC_THRESHOLDS = (50_000, 20, 50)


class App:
    """A broker with its listeners, on the running loop."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.loop = asyncio.get_running_loop()
        self.turn = Turn(self.loop.call_soon)
        self.broker = Broker(self.turn)
        self.broker.create_defaults()
        self.limits = limits_of(config)
        self.server = Server(self.connect, self.limits, self.loop)
        self.amqp_port = 0

    def connect(self, shell: Shell, number: int, peer_address: str, name: str) -> Connection:
        return Connection(self.broker, self.turn, shell, self.limits, number, peer_address, name)

    async def start(self) -> None:
        self.amqp_port = await self.server.listen(self.config.bind, self.config.amqp_port)

    @property
    def ready_line(self) -> str:
        host = f"[{self.config.bind}]" if ":" in self.config.bind else self.config.bind
        return f"EmberMQ {__version__} ready: amqp://{host}:{self.amqp_port}"

    async def stop(self) -> None:
        await self.server.stop()


def limits_of(config: Config) -> Limits:
    return Limits(config.frame_max, config.channel_max, config.heartbeat, config.max_message_size)


async def serve(config: Config, ready: Callable[[str], None] = print) -> None:
    """Run until SIGTERM or SIGINT."""
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    app = App(config)
    await app.start()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    ready(app.ready_line)
    await stopped.wait()
    log.info("stopping")
    await app.stop()


def new_event_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def run(config: Config, ready: Callable[[str], None] = print) -> None:
    """Blocks until the broker is told to stop; on uvloop where that is installed."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(serve(config, ready))
