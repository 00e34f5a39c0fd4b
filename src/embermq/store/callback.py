"""Those who wait for something to be safe: each is told, in order, whatever the others make of it."""

from __future__ import annotations

import logging
from collections.abc import Callable

from embermq.store.failure import CommitFailed

logger = logging.getLogger("embermq.store")

Callback = Callable[[Exception | None], None]


def call_all(callbacks: list[Callback], failure: CommitFailed | None) -> int:
    for callback in callbacks:
        try:
            callback(failure)
        except Exception:  # the others wait as well
            logger.exception("a fault of ours, telling that something is safe: %r", callback)
    return 0
