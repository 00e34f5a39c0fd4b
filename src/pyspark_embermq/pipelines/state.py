"""What pipelines run on this machine: a small file each, written by the one that runs."""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pyspark_embermq.errors import AMQPSourceError

RUNNING, ENDED, FAILED, DIED = "running", "ended", "failed", "died"


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

    @property
    def file(self) -> Path:
        return directory() / f"{self.name}.json"

    def save(self) -> None:
        self.updated_at = time.time()
        self.file.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.file.with_suffix(".new")
        temporary.write_text(json.dumps(asdict(self)))
        temporary.replace(self.file)


def all_states() -> list[State]:
    found = []
    for file in sorted(directory().glob("*.json")):
        try:
            state = State(**json.loads(file.read_text()))
        except (OSError, ValueError, TypeError):
            continue  # somebody else's file, or half of one
        if state.state == RUNNING and not is_alive(state.pid):
            state.state, state.reason = DIED, "its process is gone"
        found.append(state)
    return found


def state_of(name: str) -> State:
    for state in all_states():
        if state.name == name:
            return state
    raise AMQPSourceError(f"no pipeline '{name}' has run on this machine")


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def stop(name: str, patience_s: float = 60.0) -> State:
    """Ask a pipeline to end after the batch that it is at, and wait for it."""
    state = state_of(name)
    if state.state != RUNNING:
        raise AMQPSourceError(f"pipeline '{name}' does not run: it {state.state}")
    os.kill(state.pid, signal.SIGTERM)
    deadline = time.monotonic() + patience_s
    while is_alive(state.pid):
        if time.monotonic() > deadline:
            raise AMQPSourceError(f"pipeline '{name}' (process {state.pid}) does not stop")
        time.sleep(0.2)
    return state_of(name)


def as_rows(states: list[State]) -> list[dict[str, Any]]:
    return [asdict(state) for state in states]
