"""Which tests go together to one worker, and in which order: what takes longest begins first.

The tests of a file share a broker, so a file goes to one worker. The files of tests/spark share a Java
machine, which takes seconds to start and half a gigabyte, so they go to two workers at most. A long file
that begins last keeps the whole run waiting for one worker; those that take more than ten seconds are
therefore named here.
"""

from __future__ import annotations

# By their seconds on a quiet machine with two processors, longest first; a name not listed comes later.
LONGEST_FIRST = (
    "one Java machine",
    "another Java machine",
    "tests/crash/test_kill.py",
    "tests/crash/test_mutants.py",
    "tests/crash/test_power_cut.py",
    "tests/interop/celery_application/test_celery.py",
    "tests/conformance/test_heartbeat.py",
    "tests/unit/testing/test_plugin.py",
    "tests/crash/test_failing_disk.py",
    "tests/interop/test_rabbitmqadmin.py",
    "tests/leases/test_http_and_amqp.py",
    "tests/crash/test_delayed_messages.py",
    "tests/interop/test_ember_client.py",
    "tests/hostile/test_floods.py",
    "tests/conformance/test_security.py",
    "tests/conformance/test_queue_model.py",
    "tests/client/test_conditions.py",
    "tests/docs/test_examples.py",
    "tests/interop/test_definitions.py",
    "tests/client/test_reconnection.py",
    "tests/unit/http/api/test_any_request.py",
    "tests/interop/test_alarms.py",
    "tests/access/test_sasl_clients.py",
    "tests/crash/test_deduplication.py",
    "tests/crash/test_transfer.py",
    "tests/extensions/test_expiry.py",
    "tests/extensions/test_retries.py",
    "tests/streams/test_consumer_groups.py",
)
ON_ONE_JAVA_MACHINE = {
    f"tests/spark/test_{name}.py" for name in ("kills", "cluster", "pipelines", "docs", "rows", "writing")
}


def unit_of(nodeid: str) -> str:
    """The name of what goes to one worker together with this test."""
    path = nodeid.partition("::")[0]
    if path.startswith("tests/spark/"):
        return "one Java machine" if path in ON_ONE_JAVA_MACHINE else "another Java machine"
    return path


def rank_of(nodeid: str) -> int:
    """Tests with lower ranks begin earlier."""
    unit = unit_of(nodeid)
    return LONGEST_FIRST.index(unit) if unit in LONGEST_FIRST else len(LONGEST_FIRST)
