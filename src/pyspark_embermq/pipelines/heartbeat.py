"""The heartbeat of a pipeline to the broker, whose API and metrics show its state."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any
from urllib.parse import quote

from pyspark_embermq.pipelines.state import WAITING, State

INTERVAL_S = 5.0  # of one that is silent for much longer the broker says that it died
LOOK_S = 1.0
QUEUES_TOLD_MAX = 100  # the broker takes no more

Tell = Callable[[State], None]
# Puts a body to a path of the broker's API.
Put = Callable[[str, dict[str, Any]], object]

log = logging.getLogger("pyspark_embermq")


class Teller:
    """PUT /api/pipelines/VHOST/NAME, now and then, and whenever a pipeline begins or ends.

    A broker that cannot or may not be told is no reason to stop: said once, then left alone until it works.
    """

    def __init__(self, put: Put, vhost: str) -> None:
        self.put = put
        self.vhost = vhost
        self.told_at = 0.0
        self.told_state = ""
        self.has_warned = False
        self.lock = threading.Lock()

    def tell(self, state: State) -> None:
        with self.lock:
            self.tell_alone(state)

    def tell_alone(self, state: State) -> None:
        now = time.monotonic()
        if state.state == self.told_state and now - self.told_at < INTERVAL_S:
            return
        self.told_at, self.told_state = now, state.state
        path = "/".join(quote(name, safe="") for name in (self.vhost, state.name))
        try:
            told = {"host": socket.gethostname(), **asdict(state)}
            told["queues"] = dict(list(state.queues.items())[:QUEUES_TOLD_MAX])
            self.put(f"/api/pipelines/{path}", told)
            self.has_warned = False
        except Exception as error:  # whatever `put` raises
            # While the pipeline waits for its broker, the user has been told.
            if not self.has_warned and state.state != WAITING:
                self.has_warned = True
                log.warning("the broker does not take the state of pipeline '%s': %s", state.name, error)


@contextmanager
def told(state: State, tell: Tell) -> Iterator[None]:
    """Tell that it begins, that it is there, however long a step of it takes, and how it ended."""
    over = threading.Event()

    def go_on() -> None:
        while not over.wait(LOOK_S):
            tell(state)

    tell(state)
    thread = threading.Thread(target=go_on, name="telling", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        tell(state)
