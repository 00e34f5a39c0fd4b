"""One broker for the tests of leases; some of them kill it."""

from __future__ import annotations

from tests.streams.conftest import reader, stored

__all__ = ["reader", "stored"]
