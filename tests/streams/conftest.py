"""The same clients as for the other extensions; EMBERMQ_TEST_TARGET=rabbitmq checks the tests themselves."""

from __future__ import annotations

from tests.extensions.conftest import client, connect

__all__ = ["client", "connect"]
