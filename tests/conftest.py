"""Fixtures that every kind of test shares: a real broker process, EmberMQ unless told otherwise.

EMBERMQ_TEST_TARGET=rabbitmq runs the same tests against Debian's RabbitMQ, to check the tests themselves.
"""

import gc
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.schedule import rank_of, unit_of
from tools.brokers import Broker, EmberBroker, RabbitBroker

TARGETS: dict[str, Callable[..., Broker]] = {"embermq": EmberBroker, "rabbitmq": RabbitBroker}

# How hypothesis behaves in all tests: no time limits, because the machine may be busy with other things.
# Where CI is set, it also stops varying its examples from run to run, so that a failure there is nobody's bad
# luck. Here and not further in: a test has the settings that were loaded before its module.
settings.register_profile(
    "embermq",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=bool(os.environ.get("CI")),
)
settings.load_profile("embermq")


def pytest_addoption(parser: pytest.Parser) -> None:
    # Here and not in tests/crash: pytest reads options from the outermost conftest only.
    parser.addoption("--cycles", type=int, default=24, help="tests/crash: how many times to kill a broker")
    parser.addoption("--connections", type=int, default=500, help="tests/access: how many clients at once")
    parser.addoption(
        "--spark-kills", type=int, default=10, help="tests/spark: how many times to kill a query"
    )
    parser.addoption("--spark-cluster", action="store_true", help="tests/spark: also with a Java of its own")
    parser.addoption("--crash-seed", type=int, help="tests/crash: repeat the history with this seed only")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: rank_of(item.nodeid))
    if os.environ.get("EMBERMQ_EXPECT") != "interpreted":
        return
    for item in items:
        if once := item.get_closest_marker("once"):
            item.add_marker(
                pytest.mark.skip(reason=f"the compiled run has it, once is enough: {once.args[0]}")
            )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With `--dist loadfile`, what belongs together by tests/schedule.py goes to one worker."""
    from xdist.scheduler import LoadFileScheduling

    class Together(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return unit_of(nodeid)

    if config.getoption("dist") != "loadfile":
        return None
    config.option.loadscopereorder = False  # the order of the tests is the one that we gave them
    return Together(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_unconfigure() -> None:
    """What lives until the end is kept by libraries (kombu's pools): there is no test left to blame."""
    warnings.simplefilter("ignore", ResourceWarning)


@pytest.fixture(autouse=True, scope="module")
def _leaves_nothing_open() -> Iterator[None]:
    """What a module leaves open fails the last of its own tests, and not one that comes much later."""
    yield
    gc.collect()


def target_name() -> str:
    name = os.environ.get("EMBERMQ_TEST_TARGET", "embermq")
    if name not in TARGETS:
        raise pytest.UsageError(f"EMBERMQ_TEST_TARGET is {name!r}, not one of {', '.join(TARGETS)}")
    return name


def pytest_report_header() -> str:
    return f"broker under test: {target_name()}"


@pytest.fixture(scope="session")
def target() -> str:
    """ "embermq" or "rabbitmq"."""
    return target_name()


@pytest.fixture(scope="session")
def broker(target: str) -> Iterator[Broker]:
    """The broker of the whole test session: use unique names and leave it as you found it."""
    with TARGETS[target]() as running:
        yield running


@pytest.fixture
def start_broker(target: str) -> Iterator[Callable[..., Any]]:
    """Start brokers of one's own, with options: `start_broker(max_message_size=1000)`."""
    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(TARGETS[target](**options))
