"""Adoption of unclaimed directories: each becomes a queue again, as its label describes it.

    1. definitions that have lost commits are copied, and accepted as they are
    2. the directory moves from DIR/unclaimed back to DIR/queues
    3. the queue is defined (a crash before that: the next start sets the directory aside again)

What else was lost with the definitions (bindings, policies, users) is not in the directories, and has to be
declared anew.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from typing import Any

from embermq.store.commit_note import note_path
from embermq.store.definitions import DELETING, STOPPED, Definitions, definitions_damage
from embermq.store.disk.filesystem import FileSystem
from embermq.store.disk.layout import DELAYED_PREFIX, Layout, delayed_id, owner_id
from embermq.store.disk.lock import DirectoryLock
from embermq.store.errors import DefinitionsBehind, StoreFailure
from embermq.store.recovery.unclaimed import (
    Label,
    is_accounted_for,
    read_label,
    set_aside,
    unclaimed_ids,
    undefined_ids,
)

PRIORITY_PART = re.compile(r"\.p(\d{3})$")


def adopt(directory: str, ids: list[str], vhost: str | None = None, name: str | None = None) -> Iterator[str]:
    """Bring back these, or all; a line about each step. One of them alone may be given another name."""
    filesystem, layout = FileSystem(), Layout(directory)
    layout.check_version(filesystem)
    lock = DirectoryLock(layout.lock)
    try:
        needed_for = layout.queues if layout.queue_ids(filesystem) else ""
        damage = definitions_damage(layout.definitions, needed_for)
        if isinstance(damage, DefinitionsBehind):
            yield f"accepted: {damage.what} (what was there is kept as {keep_copy(layout)})"
        elif damage is not None:
            raise damage
        definitions = Definitions(
            layout.definitions, lambda function, *args: function(*args), accept_loss=damage is not None
        )
        try:
            adoption = Adoption(filesystem, layout, definitions)
            adoption.set_strangers_aside()
            if not adoption.vhosts:
                yield "nothing is defined: start a broker, which begins anew, stop it, and adopt again"
                return
            yield from adoption.run(ids, vhost, name)
            definitions.all(STOPPED)  # wait until all is written
        finally:
            definitions.close()
    finally:
        lock.release()


def keep_copy(layout: Layout) -> str:
    """Copy the definitions as they are, for a later attempt to repair them."""
    number = 1
    while os.path.exists(target := f"{layout.definitions}.damaged-{number}"):
        number += 1
    os.mkdir(target, 0o750)
    for path in (layout.definitions, f"{layout.definitions}-wal", note_path(layout.definitions)):
        if os.path.exists(path):
            shutil.copy2(path, target)
    return target


class Adoption:
    """One data directory, locked, with its definitions."""

    def __init__(self, filesystem: FileSystem, layout: Layout, definitions: Definitions) -> None:
        self.filesystem = filesystem
        self.layout = layout
        self.definitions = definitions
        self.vhosts = {definition.name for definition in definitions.all("vhost")}
        self.names = {(definition.vhost, definition.name) for definition in definitions.all("queue")}

    def run(self, ids: list[str], vhost: str | None, name: str | None) -> Iterator[str]:
        found: dict[str, list[str]] = {}
        for log_id in unclaimed_ids(self.filesystem, self.layout):
            found.setdefault(owner_id(log_id), []).append(log_id)
        for missing in [queue_id for queue_id in ids if queue_id not in found]:
            raise StoreFailure(f"nothing in {self.layout.unclaimed} has the id {missing}")
        wanted = ids or list(found)
        if (vhost is not None or name is not None) and len(wanted) != 1:
            raise StoreFailure("a name is for one queue: say which, by its id")
        if not wanted:
            yield "nothing to adopt: every directory belongs to a queue"
        # A virtual host may come with a queue, and what is delayed there with it.
        for owner in sorted(wanted, key=lambda owner: owner.startswith(DELAYED_PREFIX)):
            if owner.startswith(DELAYED_PREFIX):
                yield self.adopt_delayed(owner, found[owner])
            else:
                yield self.adopt_queue(owner, found[owner], vhost, name)
        if wanted:
            # What was delivered before is unknown: as after a crash, all is marked so.
            self.definitions.delete(STOPPED, "", "")

    def set_strangers_aside(self) -> None:
        """As a start would do."""
        owners = {str(definition.body["id"]) for definition in self.definitions.all("queue")}
        owners |= {definition.name for definition in self.definitions.all("departing")}
        owners |= {delayed_id(vhost) for vhost in self.vhosts}
        deleted = {definition.name for definition in self.definitions.all(DELETING)}
        unknown = [
            log_id
            for log_id in undefined_ids(self.filesystem, self.layout, [])
            if owner_id(log_id) not in owners
            and not is_accounted_for(self.filesystem, self.layout, log_id, owners, deleted)
        ]
        set_aside(self.filesystem, self.layout, unknown)

    def adopt_delayed(self, owner: str, log_ids: list[str]) -> str:
        if owner not in {delayed_id(vhost) for vhost in self.vhosts}:
            return f"{owner}: delayed messages of a virtual host that is not defined; left where it is"
        self.move(log_ids)
        return f"{owner}: delayed messages are back"

    def adopt_queue(self, owner: str, log_ids: list[str], vhost: str | None, name: str | None) -> str:
        directories = [os.path.join(self.layout.unclaimed, log_id) for log_id in log_ids]
        labels = [label for path in directories if (label := read_label(self.filesystem, path)) is not None]
        label = labels[0] if labels else Label("/", f"adopted-{owner}", guessed_definition(log_ids))
        vhost = label.vhost if vhost is None else vhost
        if name is None:
            name = label.name
            if (vhost, name) in self.names:
                name = f"{name}.adopted-{owner[:8]}"
        if (vhost, name) in self.names:
            raise StoreFailure(f"there is a queue '{name}' in vhost '{vhost}' already")
        self.move(log_ids)
        if vhost not in self.vhosts:
            self.vhosts.add(vhost)
            self.definitions.put("vhost", "", vhost, {})
        self.names.add((vhost, name))
        self.definitions.put("queue", vhost, name, {**label.definition, "id": owner})
        return f"{owner}: queue '{name}' in vhost '{vhost}' is back, without bindings"

    def move(self, log_ids: list[str]) -> None:
        for log_id in log_ids:
            self.filesystem.rename(os.path.join(self.layout.unclaimed, log_id), self.layout.queue(log_id))
        self.filesystem.sync_directory(self.layout.queues)
        self.filesystem.sync_directory(self.layout.unclaimed)


def guessed_definition(log_ids: list[str]) -> dict[str, Any]:
    """Of a queue whose directory does not say how it was declared: its priorities are in their names."""
    priorities = [int(found[1]) for log_id in log_ids if (found := PRIORITY_PART.search(log_id))]
    arguments = {"arguments": {"x-max-priority": max(priorities)}} if priorities else {}
    return {"auto_delete": False, **arguments}
