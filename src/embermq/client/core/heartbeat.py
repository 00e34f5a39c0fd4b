"""The clock of a connection: heartbeats in both directions, and the limits on waiting."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embermq.client.errors import ClientError, ConnectionClosed, ConnectionFailed, ConnectionLost

if TYPE_CHECKING:
    from embermq.client.core.engine import Engine

HANDSHAKE, RESTORING = 1, 2  # of core.engine's states
IDLE_TICK_S = 1.0


class Heartbeat:
    """One per transport; the shell calls `tick` every `tick_s` seconds."""

    def __init__(self, engine: Engine, now_s: float) -> None:
        self.engine = engine
        self.began_at_s = now_s
        self.heard_at_s = now_s
        self.spoke_at_s = now_s
        self.blocked_at_s: float | None = None

    @property
    def tick_s(self) -> float:
        heartbeat_s = self.engine.heartbeat_s
        return min(IDLE_TICK_S, heartbeat_s / 4) if heartbeat_s else IDLE_TICK_S

    def tick(self, now_s: float) -> ClientError | None:
        """Puts a heartbeat when it is time for one; the error when the transport should be given up."""
        engine = self.engine
        if engine.heard or engine.congested is not None:  # not heard because we do not read
            engine.heard = False
            self.heard_at_s = now_s
        if engine.spoke:
            engine.spoke = False
            self.spoke_at_s = now_s
        if engine.state in (HANDSHAKE, RESTORING):
            patience_s = engine.settings.connect_timeout_s
            if now_s - self.began_at_s > patience_s:
                return ConnectionFailed(f"the broker did not finish the handshake within {patience_s:g} s")
        return self._blocked_too_long(now_s) or self._heartbeat(now_s)

    def _blocked_too_long(self, now_s: float) -> ClientError | None:
        if self.engine.blocked_reason is None:
            self.blocked_at_s = None
            return None
        if self.blocked_at_s is None:
            self.blocked_at_s = now_s
        patience_s = self.engine.settings.blocked_timeout_s
        if patience_s is None or now_s - self.blocked_at_s < patience_s:
            return None
        return ConnectionClosed(
            f"given up: the broker has blocked publishing for {patience_s:g} s "
            f"({self.engine.blocked_reason}): it is short of memory or disk"
        )

    def _heartbeat(self, now_s: float) -> ClientError | None:
        heartbeat_s = self.engine.heartbeat_s
        if not heartbeat_s:
            return None
        silent_s = now_s - self.heard_at_s
        if silent_s > 2 * heartbeat_s:
            return ConnectionLost(
                f"nothing came from the broker for {silent_s:.0f} s, two heartbeats were missed"
            )
        if now_s - self.spoke_at_s >= heartbeat_s / 2:
            self.engine.put_heartbeat()
            self.spoke_at_s = now_s
        return None
