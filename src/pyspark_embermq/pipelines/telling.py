"""How a pipeline is, told to the broker: a runtime parameter, which its API, console and metrics show."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any
from urllib.parse import quote

from pyspark_embermq.pipelines.state import State

COMPONENT = "pipeline"
INTERVAL_S = 5.0  # a parameter is written to the broker's disk each time

# Puts a body to a path of the broker's API.
Put = Callable[[str, dict[str, Any]], object]

log = logging.getLogger("pyspark_embermq")


class Teller:
    """PUT /api/parameters/pipeline/VHOST/NAME, now and then, and whenever a pipeline begins or ends.

    A broker that cannot or may not be told is no reason to stop: said once, then left alone until it works.
    """

    def __init__(self, put: Put, vhost: str) -> None:
        self.put = put
        self.vhost = vhost
        self.told_at = 0.0
        self.told_state = ""
        self.has_warned = False

    def tell(self, state: State) -> None:
        now = time.monotonic()
        if state.state == self.told_state and now - self.told_at < INTERVAL_S:
            return
        self.told_at, self.told_state = now, state.state
        path = "/".join(quote(name, safe="") for name in (COMPONENT, self.vhost, state.name))
        try:
            # A parameter holds no nulls: what is not known is not there.
            told = {name: value for name, value in asdict(state).items() if value is not None}
            self.put(f"/api/parameters/{path}", {"value": told})
            self.has_warned = False
        except Exception as error:  # whatever the one who puts raises
            if not self.has_warned:
                self.has_warned = True
                log.warning("the broker does not take the state of pipeline '%s': %s", state.name, error)
