"""The thread of a connection: it alone has the socket and the engine.

Other threads post what they want done (`Commands.post`, one append to a deque) and wait for the result. So no
two threads ever change anything together, and an exception that a signal handler raises in the main thread
finds nothing half done: the thread of the connection never runs signal handlers. A new transport is opened by
a thread of its own, because looking up a name may take long and commands must not wait for it.
"""

from __future__ import annotations

import logging
import math
import os
import select
import socket
import threading
import time
from collections.abc import Callable

from embermq.client.address import Endpoint, Settings
from embermq.client.blocking.inbox import BlockingInbox
from embermq.client.blocking.transport import Transport, open_transport
from embermq.client.blocking.waiter import Waiter
from embermq.client.calls.lives import Lives, live
from embermq.client.calls.once import blocking
from embermq.client.core.commands import (
    ASLEEP,
    AWAKE,
    LINGERING,
    ClosedQueue,
    Commands,
    ParentsQueue,
    run_all,
)
from embermq.client.core.engine import Engine
from embermq.client.core.heartbeat import Heartbeat
from embermq.client.core.message import Message
from embermq.client.errors import ClientError, ConnectionClosed
from embermq.client.failure_text import broken

log = logging.getLogger("embermq.client")

LAST_SEND_S = 2.0  # how long sending the last frames may take
READ_BUFFER_BYTES = 512 * 1024
ROOM_BYTES = 1024 * 1024  # with more than this on its way out, threads that want to publish more wait
NOTHING = memoryview(b"")  # not the empty end of what was sent, whose memory is to be used again
LINGER_MS = 1  # acks may gather so long: taking turns for each of them is dear
PAUSE_POLL_S = 60.0


class IOThread(Lives):
    """`on_event` is told what users' callbacks are for; it must not wait."""

    def __init__(self, settings: Settings, on_event: Callable[[str, object, object], None]) -> None:
        self.settings = settings
        self.on_event = on_event
        self.first: Waiter = Waiter()
        self._transport: Transport | None = None
        self._buffer = bytearray(READ_BUFFER_BYTES)
        self._kept = 0  # bytes of a frame whose end has not come
        self._unsent = NOTHING
        self._without_room: list[Waiter] = []
        self._wakeup, wakeup_sender = socket.socketpair()
        self._wakeup.setblocking(False)
        self._wakeup_fd = self._wakeup.fileno()
        wakeup_sender.setblocking(False)
        self._wakeup_sender = wakeup_sender
        self.commands = Commands(wakeup_sender.send)  # a call into C, before which no signal handler runs
        self.engine = Engine(settings, self, self.commands)
        IO_THREADS.add(self)
        self.thread = threading.Thread(target=self._run, name="embermq-client", daemon=True)
        self.thread.start()

    # -- a command of other threads

    def await_room(self, waiter: Waiter) -> None:
        """Tell the waiter when there is little left to send."""
        self._without_room.append(waiter)

    # -- the engine's shell

    def wake(self) -> None:
        """There is output: it is sent before our thread sleeps."""

    def happened(self, event: str, subject: object, detail: object) -> None:
        self.on_event(event, subject, detail)

    # -- lives of the connection

    def _run(self) -> None:
        error = self._live()
        engine = self.engine
        left = self.commands.close(ClosedQueue(error))
        engine.lost(error, final=True)
        run_all(left)  # what was posted before: it fails with the error
        self._tell_of_room()
        if not self.first.done():
            self.first.set_exception(error)
        self.on_event("closed", None, error)
        IO_THREADS.discard(self)
        self._wakeup.close()
        self._wakeup_sender.close()

    _live = blocking(live)

    def dial(self, endpoint: Endpoint) -> Transport | None:
        dialed: list[Transport | OSError] = []
        abandoned = threading.Event()

        def dial() -> None:
            try:
                result: Transport | OSError = open_transport(endpoint, self.settings)
            except OSError as failure:
                result = failure
            if not abandoned.is_set():
                self.commands.post(dialed.append, result)
            elif isinstance(result, Transport):
                result.close()

        threading.Thread(target=dial, name="embermq-client-dial", daemon=True).start()
        self._serve_without(lambda: bool(dialed))
        abandoned.set()
        for result in dialed:
            if isinstance(result, OSError):
                raise result
            if not self.closed_by_user:
                return result
            result.close()
        return None

    def pause(self, seconds: float) -> bool:
        self._serve_without(lambda: False, time.monotonic() + seconds)
        return self.closed_by_user

    def hang_up(self, transport: Transport) -> None:
        self._transport = None
        transport.shut()
        transport.close()

    def _serve_without(self, over: Callable[[], bool], until_s: float = math.inf) -> None:
        """Do what others want done while there is no connection, until it is `over` or closed."""
        poller = select.poll()
        poller.register(self._wakeup, select.POLLIN)
        while True:
            self.commands.run()
            self._tell_of_room()
            left_s = until_s - time.monotonic()
            if over() or left_s <= 0 or self.closed_by_user:
                return
            self._poll(poller, min(left_s, PAUSE_POLL_S) * 1000)

    # -- one life

    def serve(self, transport: Transport) -> ClientError:
        engine = self.engine
        self._transport = transport
        self._unsent, self._kept = NOTHING, 0
        heartbeat = Heartbeat(engine, time.monotonic())
        poller = select.poll()
        poller.register(self._wakeup, select.POLLIN)
        next_tick_s = 0.0
        registered = -1
        while True:
            self.commands.run()
            blocked = not self._send(transport)
            if self.end is not None:
                self._send_the_rest(transport)
                return self.end
            if self._without_room:
                self._tell_of_room()
            wanted = (select.POLLIN if engine.may_read() else 0) | (select.POLLOUT if blocked else 0)
            if wanted != registered:
                poller.register(transport, wanted)
                registered = wanted
            now_s = time.monotonic()
            if now_s >= next_tick_s:
                next_tick_s = now_s + heartbeat.tick_s
                error = heartbeat.tick(now_s)
                if error is not None:
                    return error
                if engine.buffer.out.size:
                    continue
            posted = False
            for descriptor, event in self._poll(poller, max(next_tick_s - now_s, 0) * 1000):
                if descriptor == self._wakeup_fd:
                    posted = True
                elif event & ~select.POLLOUT:
                    try:
                        self._read(transport)
                    except OSError as failure:
                        return self._why(failure)
            if posted:
                self._linger(poller)

    def _why(self, failure: OSError) -> ClientError:
        """The engine's error (after a connection.close, say) comes before that of the socket."""
        return self.end or broken(self.engine, self.endpoint, self.settings, failure)

    def _poll(self, poller: select.poll, timeout_ms: float) -> list[tuple[int, int]]:
        commands = self.commands
        commands.resting = ASLEEP
        if commands.queue:  # posted by a thread that saw us awake
            events = []
        else:
            events = poller.poll(timeout_ms)
        commands.resting = AWAKE
        for descriptor, _ in events:
            if descriptor == self._wakeup_fd:
                self._wakeup.recv(4096)
        return events

    def _linger(self, poller: select.poll) -> None:
        """After an ack more will follow at once."""
        commands = self.commands
        commands.resting = LINGERING
        if commands.queue and type(commands.queue[-1]) is Message:
            poller.poll(LINGER_MS)
        commands.resting = AWAKE

    def _read(self, transport: Transport) -> None:
        """Once, or while the transport holds something back; OSError at the end."""
        engine = self.engine
        while True:
            view = memoryview(self._buffer)[self._kept :]
            try:
                size = transport.receive_into(view)
            except BlockingIOError:
                return
            finally:
                view.release()
            if size == 0:
                raise ConnectionResetError("closed by the other side")
            end = self._kept + size
            used = engine.feed(self._buffer, end)
            self._kept = end - used
            if used and self._kept:
                self._buffer[: self._kept] = self._buffer[used:end]
            if engine.wanted_bytes > len(self._buffer):
                self._buffer += bytes(engine.wanted_bytes - len(self._buffer))
            if not transport.holds_back:
                return

    def _send(self, transport: Transport) -> bool:
        """As much as the system takes; whether that was everything."""
        try:
            while True:
                if not self._unsent:
                    self._unsent = self.engine.lend()
                    if not self._unsent and not transport.unsent:
                        return True
                self._unsent = self._unsent[transport.send(self._unsent) :] or NOTHING
                if not (self._unsent or self.engine.buffer.out.size or transport.unsent):
                    return True
        except BlockingIOError:
            return False
        except OSError:
            self._unsent = NOTHING
            self.engine.lend()
            transport.shut()  # the reading side says what happened
            return True

    def _tell_of_room(self) -> None:
        if self._transport is None or self.engine.buffer.out.size + len(self._unsent) < ROOM_BYTES:
            waiters, self._without_room = self._without_room, []
            for waiter in waiters:
                waiter.set_result(None)

    def _send_the_rest(self, transport: Transport) -> None:
        deadline_s = time.monotonic() + LAST_SEND_S
        poller = select.poll()
        poller.register(transport, select.POLLOUT)
        while not self._send(transport) and time.monotonic() < deadline_s:
            poller.poll(LAST_SEND_S * 1000)

    # -- after a fork

    def leave_to_parent(self, error: ClientError) -> None:
        """In the child: the connection stays the parent's, and every use of it here raises."""
        engine = self.engine
        self.commands.close(ParentsQueue(error))
        engine.leave_to_parent(error)
        for channel in engine.channels.values():
            for inbox in channel.consumers.values():
                assert isinstance(inbox, BlockingInbox)
                inbox.error = error
                inbox.ready.clear()  # they are the parent's
        for opened in (self._transport, self._wakeup, self._wakeup_sender):
            if opened is not None:
                opened.close()


# Kept by their own threads: a callback of a weak reference might be interrupted by a signal.
IO_THREADS: set[IOThread] = set()


def leave_all_to_parent() -> None:
    for thread in list(IO_THREADS):
        thread.leave_to_parent(
            ConnectionClosed("a connection does not survive fork(): connect in the new process")
        )
    IO_THREADS.clear()


os.register_at_fork(after_in_child=leave_all_to_parent)
