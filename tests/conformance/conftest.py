"""Raw clients as fixtures, the RabbitMQ target's expected failures, and the verdicts of a run."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.conftest import target_name
from tests.support.raw_client import RawChannel, RawClient
from tools.brokers import Broker

RESULTS = Path(__file__).parents[2] / "build" / "conformance-results.json"


@pytest.fixture
def connect(broker: Broker) -> Iterator[Callable[..., RawClient]]:
    """`connect()` gives a new raw connection, handshake done; `connect(handshake=False)` only the socket."""
    with ExitStack() as stack:

        def make(handshake: bool = True, **arguments: object) -> RawClient:
            client = stack.enter_context(RawClient(broker.port))
            return client.handshake(**arguments) if handshake else client  # type: ignore[arg-type]

        yield make


@pytest.fixture
def raw(connect: Callable[..., RawClient]) -> RawClient:
    """A socket to the broker on which nothing was said yet."""
    return connect(handshake=False)


@pytest.fixture
def client(connect: Callable[..., RawClient]) -> RawClient:
    """An open connection."""
    return connect()


@pytest.fixture
def channel(client: RawClient) -> RawChannel:
    """Channel 1 of an open connection."""
    return client.channel(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if target_name() != "rabbitmq":
        return
    for item in items:
        reason = getattr(getattr(item, "obj", None), "rabbitmq_differs", None)
        if reason:
            # Strict: the day RabbitMQ follows the rule, the mark must go.
            item.add_marker(pytest.mark.xfail(reason=f"RabbitMQ differs: {reason}", strict=True))


_verdicts: dict[str, str] = {}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    name = report.nodeid.split("[")[0]
    if not name.startswith("tests/conformance/"):
        return
    if report.when == "call" or report.outcome != "passed":
        verdict = "differs" if hasattr(report, "wasxfail") else report.outcome
        # Of a test with parameters the worst verdict counts.
        order = ["passed", "differs", "skipped", "failed"]
        _verdicts[name] = max(verdict, _verdicts.get(name, "passed"), key=order.index)


def pytest_sessionfinish(session: pytest.Session) -> None:
    # Under xdist the controller hears every report; its workers keep quiet.
    if not _verdicts or hasattr(session.config, "workerinput"):
        return
    RESULTS.parent.mkdir(exist_ok=True)
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    known[target_name()] = {**known.get(target_name(), {}), **_verdicts}
    RESULTS.write_text(json.dumps(known, indent=1, sort_keys=True))
