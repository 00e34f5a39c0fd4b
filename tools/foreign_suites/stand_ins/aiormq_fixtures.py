"""The conftest.py at the top of aiormq's repository, which its package on PyPI lacks: where the broker is."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

PORTS = {"5672/tcp": 5672, "5671/tcp": 5671}


class Container:
    """As much of a Docker container as the tests ask for."""

    host = "localhost"
    ports = PORTS


@pytest.fixture(scope="session")
def rabbitmq_container() -> Container:
    return Container()


@pytest.fixture
def amqp_direct_url(rabbitmq_container: Container) -> Any:
    return importlib.import_module("yarl").URL("amqp://guest:guest@localhost:5672/")
