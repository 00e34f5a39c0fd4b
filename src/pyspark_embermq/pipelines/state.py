"""State files of the pipelines of this machine: one each, written by the process that runs it.

That process holds a lock on a file beside it. The lock ends with the process, however that ends, and so tells
whether a pipeline that says it runs still does: process numbers come again.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pyspark_embermq.errors import AMQPSourceError

RUNNING, ENDED, FAILED, DIED = "running", "ended", "failed", "died"
WAITING = "waiting"  # for a broker that is not there
ALIVE = (RUNNING, WAITING)


def directory() -> Path:
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "embermq" / "pipelines"


@dataclass
class State:
    name: str
    pid: int
    state: str = RUNNING
    started_at: float = field(default_factory=time.time)
    updated_at: float = 0.0
    batches: int = 0
    rows: int = 0
    rows_per_second: float = 0.0
    lag: int | None = None  # messages that wait in the source; None: the source cannot tell
    reason: str = ""
    source: str = ""  # where rows come from and go to, as people say it; "" where a program alone knows
    sink: str = ""
    queues: dict[str, dict[str, float]] = field(default_factory=dict)  # lag and more of each

    @property
    def file(self) -> Path:
        return directory() / f"{self.name}.json"

    def save(self) -> None:
        self.updated_at = time.time()
        self.file.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.file.with_suffix(".new")
        temporary.write_text(json.dumps(asdict(self)))
        temporary.replace(self.file)


@contextmanager
def claimed(name: str) -> Iterator[None]:
    """Hold the name of a pipeline while this process runs it."""
    directory().mkdir(parents=True, exist_ok=True)
    with lock_file(name).open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise runs_already(name) from None
        yield


def runs_already(name: str) -> AMQPSourceError:
    return AMQPSourceError(
        f"a pipeline '{name}' runs already; stop it (embermq pipeline stop {name}), or give this one another "
        "name with --name"
    )


def refuse_another(name: str) -> None:
    """An early check only: the first process to claim the name has it."""
    if is_running(name):
        raise runs_already(name)


def lock_file(name: str) -> Path:
    return directory() / f"{name}.lock"


def is_running(name: str) -> bool:
    try:
        with lock_file(name).open("a") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def all_states() -> list[State]:
    found = []
    for file in sorted(directory().glob("*.json")):
        try:
            state = State(**json.loads(file.read_text()))
        except (OSError, ValueError, TypeError):
            continue  # not a state file, or half of one
        if state.state in ALIVE and not is_running(state.name):
            state.state, state.reason = DIED, "its process is gone"
        found.append(state)
    return found


def state_of(name: str) -> State:
    for state in all_states():
        if state.name == name:
            return state
    raise AMQPSourceError(f"no pipeline '{name}' has run on this machine")


def stop(name: str, patience_s: float = 60.0) -> State:
    """Ask a pipeline to end after the batch that it is at, and wait for it."""
    state = state_of(name)
    if state.state not in ALIVE:
        raise AMQPSourceError(f"pipeline '{name}' does not run: it {state.state}")
    os.kill(state.pid, signal.SIGTERM)
    deadline = time.monotonic() + patience_s
    while is_running(name):
        if time.monotonic() > deadline:
            raise AMQPSourceError(f"pipeline '{name}' (process {state.pid}) does not stop")
        time.sleep(0.2)
    return state_of(name)


def as_rows(states: list[State]) -> list[dict[str, Any]]:
    return [asdict(state) for state in states]
