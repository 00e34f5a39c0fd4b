"""Patterns of names: what is let in, what it means, and that what is let in is quick."""

from __future__ import annotations

import subprocess
import sys

import pytest

from embermq.broker.security import safe_regex as patterns
from embermq.broker.security.safe_regex import PatternError, compile_pattern
from embermq.broker.security.user import Permission, TopicPermission

ALWAYS_REFUSED = ["(", "[", "*", r"(a)\1", "x" * 1001, "\ud800", "^(?!(a+)+b)", "(?u)(?=a)"]
# Python's `re` could take longer for them than the broker will live.
ONLY_LINEAR = ["(a+)+$", "(a|a)*$", "(.*)*x", "a*a*a*a*a*b", "(a|bc)?" * 14, r"^([a-z]+\.)+x$"]
ALLOWED = [
    ("", "anything", True),
    (".*", "anything", True),
    ("^", "", True),
    ("^orders", "orders.eu", True),
    ("^orders", "my orders", False),
    ("Orders", "orders", False),
    ("^(red|green|blue|white|black|brown|grey)\\.", "grey.x", True),
    (r"^a\.[a-z]+\.b\.c.*$", "a.x.b.c", True),
    (r"x\.*", "y", False),
    ("^a.*|^b.*", "cb", False),
    ("(ab)*c$", "ababc", True),
    ("^é.$", "éè", True),
    (r"^\w+$", "é", False),  # as in RabbitMQ
    # Lookahead and lookbehind, as RabbitMQ's documentation and its users write them.
    (r"^(?!amq\.).*", "orders", True),
    (r"^(?!amq\.).*", "amq.gen-x", False),
    (r"^(?!(amq\.|tmp\.)).*$", "tmp.x", False),
    (r"^(?!.*\.dlq$).*", "orders.dlq", False),
    (r"^(?!.*\.dlq$).*", "orders", True),
    (r"^((?!secret).)*$", "my.secret.queue", False),
    (r"^((?!secret).)*$", "my.queue", True),
    (r"^(?=orders\.)(?!.*tmp)[a-z.]+$", "orders.eu", True),
    (r"^(?=orders\.)(?!.*tmp)[a-z.]+$", "orders.tmp", False),
    (r"(?<!\.dlq)$", "orders.dlq", False),
    (r"^.*?(?=\.dlq)", "orders.dlq", True),
    (r".*?(?!x)$", "orders", True),
]
SLOW_AT_WORST = [
    "(a?){255}b",
    "((a?){30}){30}b",
    "(.?){1000}b",
    "(.*a){60}b",
    "(\\pL?){20}b",
    "^(?!a*a*b)x",
    "^a*a*(?!aaaaaa)b",
    "(?i)^a*(?=[a-z]{3}[a-z]{3})" + "[a-z]" * 100 + "b",
]


@pytest.fixture(params=["re2", "re"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With RE2, and as on a platform that has none."""
    if request.param == "re":
        monkeypatch.setattr(patterns, "re2", None)
    else:
        pytest.importorskip("re2")
    return str(request.param)


@pytest.mark.parametrize("pattern", ALWAYS_REFUSED)
def test_refused(engine: str, pattern: str) -> None:
    with pytest.raises(PatternError):
        compile_pattern(pattern)


@pytest.mark.parametrize("pattern", ONLY_LINEAR)
def test_repetitions_in_repetitions_need_re2(engine: str, pattern: str) -> None:
    if engine == "re":
        with pytest.raises(PatternError):
            compile_pattern(pattern)
    else:
        assert compile_pattern(pattern)("a" * 255 + "!") in (True, False)


@pytest.mark.parametrize(("pattern", "name", "expected"), ALLOWED)
def test_allowed(engine: str, pattern: str, name: str, expected: bool) -> None:
    assert compile_pattern(pattern)(name) is expected


def test_what_rabbitmq_knows_and_python_does_not() -> None:
    pytest.importorskip("re2")
    assert compile_pattern("^[[:alpha:]]+$")("abc") and not compile_pattern("^[[:alpha:]]+$")("ab1")
    assert compile_pattern(r"^\Qa.b\E$")("a.b") and not compile_pattern(r"^\Qa.b\E$")("axb")


def test_classes_that_python_would_misread_are_refused_without_re2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "re2", None)
    with pytest.raises(PatternError):
        compile_pattern("[[:alpha:]]")


def test_case(engine: str) -> None:
    assert compile_pattern("ORDERS", ignore_case=True)("my orders")


def test_names_that_are_no_text(engine: str) -> None:
    """AMQP's names are octets."""
    name = b"\xff\xfe.x".decode("utf-8", "surrogateescape")
    assert compile_pattern("^.*$")(name) and compile_pattern(r"\.x$")(name)
    assert not compile_pattern("^x")(name)


@pytest.mark.parametrize("pattern", SLOW_AT_WORST)
def test_what_is_let_in_comes_to_an_end(engine: str, pattern: str) -> None:
    """What backtracks without a bound would not come back before the broker is gone."""
    try:
        matches = compile_pattern(pattern)
    except PatternError:
        return
    for name in ("a" * 255, "a" * 254 + "!", "ab" * 127):
        assert matches(name) in (True, False)


def test_the_place_of_a_mistake() -> None:
    with pytest.raises(PatternError, match="unterminated") as refused:
        compile_pattern("ab(c")
    assert refused.value.position == 2


# -- where they are used


def test_a_permission_that_cannot_be_used_allows_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """It may come from a data directory of another version: the broker has to start all the same."""
    permission = Permission(configure=r"(a)\1", write=".*", read=".*")
    assert not permission.allows("configure", "aa") and permission.allows("read", "aa")
    assert "nothing is allowed by the permission" in caplog.text


def test_names_in_topic_permissions_are_literal_however_long() -> None:
    permission = TopicPermission(write="^{username}\\.{client_id}$")
    variables = {"username": "a.b" * 80, "client_id": ".*" * 500}
    assert permission.allows("write", f"{variables['username']}.{variables['client_id']}", variables)
    assert not permission.allows("write", f"{variables['username']}.x", variables)


def test_without_re2_a_broker_still_runs() -> None:
    code = "import sys; sys.modules['re2'] = None; from embermq.broker.security.user import Permission as P; "
    code += "assert P('^(?!amq\\\\.).*').allows('configure', 'x')"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
