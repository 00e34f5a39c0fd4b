"""The server process: signals, systemd, the garbage collector, and one `App` until it is told to stop."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
from collections.abc import Callable

from embermq.app import log_setup
from embermq.app.app import App
from embermq.app.systemd import notify, reload_states
from embermq.config import Config, ConfigError
from embermq.net.descriptors import raise_file_limit
from embermq.net.tls import TLSError

log = logging.getLogger("embermq")

# Messages are no garbage to collect: they hold bytes and point at nothing that points back. Collections are
# for what is rare, so they may be rare themselves.
GC_THRESHOLDS = (50_000, 20, 50)


class StartInterrupted(BaseException):
    """SIGTERM or SIGINT while the data directory was read."""


def interrupt_start(number: int, frame: object) -> None:
    raise StartInterrupted


async def serve(
    config: Config, ready: Callable[[str], None] = print, reread: Callable[[], Config] | None = None
) -> None:
    """Run until SIGTERM or SIGINT, read the settings anew at SIGHUP; an exception when the disk fails."""
    loop = asyncio.get_running_loop()
    before, files = raise_file_limit()
    stopped: asyncio.Future[None] = loop.create_future()

    def stop() -> None:
        if not stopped.done():
            stopped.set_result(None)

    # Recovery keeps the loop, for as long as it takes: a full disk may have it wait for room.
    try:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, interrupt_start)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT,))  # one that came before is handled here
        app = App(config)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop)
    except StartInterrupted:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # one may be waiting, blocked
        log.info("stopped before the start was done")
        return
    log_setup.Audit(app.broker.events)

    reloads: set[asyncio.Task[None]] = set()

    def hang_up() -> None:
        if stopped.done() or app.failure.done():
            return  # there is nothing left to set
        task = loop.create_task(reload_settings(app, reread or (lambda: app.config)))
        reloads.add(task)
        task.add_done_callback(reloads.discard)

    try:
        await app.start()
        loop.add_signal_handler(signal.SIGHUP, hang_up)  # nothing can be read anew before
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGHUP,))
        gc.collect()
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLDS)
        ready(app.ready_line)
        raised = f" (raised from {before})" if before < files else ""
        log.info("%d files may be open at a time%s", files, raised)
        notify(os.environ, "READY=1", f"STATUS={app.ready_line}")
        await asyncio.wait([stopped, app.failure], return_when=asyncio.FIRST_COMPLETED)
        log.info("stopping")
        notify(os.environ, "STOPPING=1")
    finally:
        await app.stop()
    if app.failure.done():
        app.failure.result()


async def reload_settings(app: App, reread: Callable[[], Config]) -> None:
    """A mistake in the settings changes nothing."""
    from embermq.app.reload import reload

    notify(os.environ, *reload_states())
    try:
        await reload(app, reread())
    except (ConfigError, TLSError) as error:
        log.error("the settings were not read anew: %s", error)
    except Exception:
        log.exception("a fault of ours, while the settings were read anew")
    finally:
        notify(os.environ, "READY=1")


def new_event_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def run(
    config: Config, ready: Callable[[str], None] = print, reread: Callable[[], Config] | None = None
) -> None:
    """Blocks until the broker is told to stop; on uvloop where that is installed.

    SIGHUP and SIGINT may be blocked before: each is unblocked as soon as it is handled.
    """
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(serve(config, ready, reread))
