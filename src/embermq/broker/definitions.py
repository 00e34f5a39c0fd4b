"""Definitions of durable objects (queues, exchanges, users, ...): written as they change, restored at start.

Kinds and what their bodies hold:

    vhost        description, tags, limits, default_queue_type, protected, closing
    user         salt, password_hash (hex), tags, loopback_only, algorithm, scram, limits
    permission   configure, write, read                        name: the user
    topic_permission   exchange -> write, read                 name: the user
    exchange     type, auto_delete, internal, arguments
    queue        id (of its files), auto_delete, arguments, ttl_history (Level.ttl_history by log),
                 template (arguments it has from one)
    template     arguments
    binding      source, kind ("queue" or "exchange"), destination, routing_key, arguments
    policy, operator_policy   pattern, definition, priority, apply-to
    parameter    component, name, value                        name: both, as JSON
    lease        state (open, settled, released), created_ms, expires_ms, count, bytes,
                 runs: [log, first, count, base]
                                                               vhost: the id of the queue, name: the lease
    stream-offset  offset: the first that is not acked         vhost: the id of the stream, name: the consumer
    delayed      below: number under which messages are taken back    name: their destination
    departing    queue, arguments: deleted and not empty       name: the id of its files
    deleting     deleted, and its files on their way out       name: their id
    commits      identity, count, sum: of the definitions themselves (see store.definitions)
    stopped      delivered: log -> last delivered sequence; whole: all was written, no record is torn
                                                               one, written by a clean stop

Exclusive queues are not here: they end with their connection.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from embermq.broker.security.password import SCRYPT, ScramKeys, Secret
from embermq.broker.security.user import Permission, User
from embermq.wire.table import decode_table, encode_table

if TYPE_CHECKING:
    from embermq.store.definitions import Definitions

Body = dict[str, Any]


class DefinitionStore:
    """Where definitions are kept; this one keeps none: a broker without a data directory."""

    changed = False

    def put(self, kind: str, vhost: str, name: str, body: Body) -> None:
        """A durable thing is new or different."""

    def delete(self, kind: str, vhost: str, name: str) -> None:
        """A durable thing is gone."""

    def note(self, kind: str, vhost: str, name: str, body: Body | None) -> None:
        """Keep a definition (None: delete it) that no reply waits for."""

    def together(self) -> AbstractContextManager[None]:
        """Changes that only make sense together: after a crash there are all of them or none."""
        return nullcontext()

    def rely(self, kind: str, vhost: str, name: str) -> None:
        """A client is about to be told that this is there, or gone, as it was before the client asked."""

    def when_safe(self, callback: Callable[[], None]) -> None:
        callback()


class DiskDefinitionStore(DefinitionStore):
    """Definitions in the data directory."""

    def __init__(self, stored: Definitions, on_failure: Callable[[Exception], None]) -> None:
        self.stored = stored
        self.on_failure = on_failure
        self.changed = False  # since the last `when_safe`
        self.changes = 0  # so far
        self.unsafe: dict[tuple[str, str, str], int] = {}  # what changed last, by the number of the change

    def put(self, kind: str, vhost: str, name: str, body: Body) -> None:
        self.stored.put(kind, vhost, name, body)
        self.note_change(kind, vhost, name)

    def delete(self, kind: str, vhost: str, name: str) -> None:
        self.stored.delete(kind, vhost, name)
        self.note_change(kind, vhost, name)

    def note_change(self, kind: str, vhost: str, name: str) -> None:
        self.changed = True
        self.changes += 1
        self.unsafe.pop((kind, vhost, name), None)
        self.unsafe[kind, vhost, name] = self.changes  # at the end: they are in the order of their numbers

    def note(self, kind: str, vhost: str, name: str, body: Body | None) -> None:
        if body is None:
            self.stored.delete(kind, vhost, name)
        else:
            self.stored.put(kind, vhost, name, body)

    def together(self) -> AbstractContextManager[None]:
        return self.stored.together()

    def rely(self, kind: str, vhost: str, name: str) -> None:
        # What made it so may still be on its way to the disk: then the answer waits as the first one does.
        # Other changes are no reason to wait, or no client could start to consume while the disk is full.
        if (kind, vhost, name) in self.unsafe:
            self.changed = True

    def when_safe(self, callback: Callable[[], None]) -> None:
        """Call back when all changes so far would survive a power cut."""
        self.changed = False
        changes = self.changes

        def done(failure: Exception | None) -> None:
            if failure is None:
                while self.unsafe and (oldest := next(iter(self.unsafe.items())))[1] <= changes:
                    del self.unsafe[oldest[0]]
                callback()
            else:
                self.on_failure(failure)

        self.stored.flush(done)


def user_body(user: User) -> Body:
    secret = user.secret
    return {
        "salt": secret.salt.hex(),
        "password_hash": secret.password_hash.hex(),
        "tags": sorted(user.tags),
        "loopback_only": user.loopback_only,
        "algorithm": secret.algorithm,
        **({"scram": secret.scram.body()} if secret.scram is not None else {}),
        **({"limits": user.limits} if user.limits else {}),
    }


def user_from(name: str, body: Body) -> User:
    secret = Secret(
        bytes.fromhex(body["salt"]),
        bytes.fromhex(body["password_hash"]),
        body.get("algorithm", SCRYPT),
        ScramKeys.from_body(body["scram"]) if "scram" in body else None,
    )
    return User(name, secret, frozenset(body["tags"]), body["loopback_only"], limits=body.get("limits", {}))


def permission_from(body: Body) -> Permission:
    return Permission(body["configure"], body["write"], body["read"])


def packed(arguments: dict[str, object]) -> Body:
    """Arguments as JSON where that says it all, otherwise as the hexadecimal bytes of the field table."""
    if not arguments:
        return {}
    if all(is_plain(value) for value in arguments.values()):
        return {"arguments": arguments}
    return {"arguments_table": encode_table(arguments).hex()}


def is_plain(value: object) -> bool:
    if type(value) is str:
        return value.isprintable()
    return type(value) in (int, bool)


def unpacked(body: Body) -> dict[str, object]:
    if "arguments_table" in body:
        data = bytes.fromhex(body["arguments_table"])
        table, _ = decode_table(data, 0, len(data))
        return table
    return dict(body.get("arguments", {}))
