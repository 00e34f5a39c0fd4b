"""What somebody meets in the first hour: mistakes are told in sentences, and nothing needs HTTP."""

from __future__ import annotations

import sys
import threading
from io import StringIO

import pytest

from embermq.cli.command.messages import tell_of_waiting
from embermq.cli.main import main
from embermq.cli.output import counted
from embermq.testing import EmbeddedBroker
from tests.support.cli_command import Command, good, rows, vhost_in


def test_one_message_and_two_messages() -> None:
    told = [counted(number, "message") for number in (0, 1, 2, 1000)]
    assert told == ["0 messages", "1 message", "2 messages", "1,000 messages"]
    assert [counted(number, "batch") for number in (1, 2)] == ["1 batch", "2 batches"]


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        ("queue list -V nowhere", 4, "there is no virtual host 'nowhere'"),
        ("binding list -V nowhere", 4, "there is no virtual host 'nowhere'"),
        ("consumer list -V nowhere", 4, "there is no virtual host 'nowhere'"),
        ("connection list -V nowhere", 4, "there is no virtual host 'nowhere'"),
        ("queue declare q -V nowhere", 4, "there is no virtual host 'nowhere'"),
        ("policy set p x max-length=1 -V nowhere", 4, "there is no virtual host 'nowhere'"),
        ("trace start t -V nowhere", 4, "there is no virtual host 'nowhere'"),
        ("limit set vhost nowhere max-queues=3", 4, "there is no virtual host 'nowhere'"),
        ("binding add amq.topic q -V nowhere", 4, "there is no virtual host 'nowhere'"),
        ("consume q --offset yesterday", 2, "--offset is 'yesterday'; expected first, last, next, a number"),
        ("queue purge nobody", 4, "there is no queue 'nobody' in virtual host '/'"),
        ("queue move nobody else", 4, "there is no queue 'nobody' in virtual host '/'"),
        ("queue browse nobody", 4, "there is no queue 'nobody' in virtual host '/'"),
        ("permission grant nobody", 4, "there is no user 'nobody', or no virtual host '/'"),
        ("permission revoke nobody", 4, "user 'nobody' has no permissions in virtual host '/'"),
        ("permission grant guest --read (", 1, "'(' is no regular expression: "),
        ("policy set p x maxlength=3", 1, "maxlength=3 are not recognised policy settings\n"),
        ("policy set p x max-length=abc", 1, "embermq: 'abc' is not a valid maximum length\n"),
        ("policy set p ( max-length=3", 1, "but is invalid: missing ), unterminated subpattern\n"),
        ("exchange delete amq.topic", 1, "exchange 'amq.topic' is the broker's own and stays"),
        ("limit set user nobody max-channels=1", 4, "there is no user 'nobody'"),
        ("limit set vhost / max-frogs=1", 1, "max-frogs"),
        ("limit set vhost / max-queues=many", 2, "'max-queues=many': expected KEY=N"),
    ],
)
def test_a_mistake_is_told_in_a_sentence(run: Command, words: str, code: int, told: str) -> None:
    found, _, err = run(*words.split())
    assert (found, told in err) == (code, True), err
    assert err.count("\n") == 1


def test_sorting_by_what_queues_do_not_have(run: Command) -> None:
    for name in ("a", "b"):
        good(run("queue", "declare", name, "-V", "VHOST"))
    code, _, err = run("queue", "list", "--sort", "mesages")
    assert code == 2 and "queues have no field 'mesages'; did you mean 'messages'?" in err
    for field in ("name", "messages", "message_stats.publish"):
        assert len(rows(run("queue", "list", "-V", "VHOST", "--sort", field, "--json"))) == 2


def test_what_answers_is_not_the_management(run: Command, broker: EmbeddedBroker) -> None:
    address = f"127.0.0.1:{broker.url.rsplit(':', 1)[1].split('/')[0]}"
    code, _, err = run("status", "--url", f"http://{address}")
    assert code == 3
    assert f"what answers at {address} does not speak HTTP: --url wants the port of the management" in err


def test_tls_where_there_is_none(run: Command, broker: EmbeddedBroker) -> None:
    code, _, err = run("status", "--url", broker.http_url.replace("http://", "https://"))
    assert code == 3 and "it does not speak TLS; a port without wants http://" in err


def test_status_says_when_alarms_come(run: Command) -> None:
    shown = good(run("status"))
    assert "(alarm above " in shown and "(alarm below " in shown


def test_who_publishes_while_an_alarm_is_raised_is_told(
    run: Command, broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    good(run("queue", "declare", "q", "-V", "VHOST"))
    found: list[tuple[int, str, str]] = []
    publishing = threading.Thread(target=lambda: found.append(run("publish", "x", "-k", "q", "-V", "VHOST")))
    told = threading.Event()

    def tell(reason: str) -> None:
        tell_of_waiting(reason)
        told.set()

    monkeypatch.setattr("embermq.cli.command.messages.tell_of_waiting", tell)
    with broker.blocked_publishers():
        publishing.start()
        assert told.wait(60)
    publishing.join(60)
    ((code, out, err),) = found
    assert (code, out) == (0, "1 message published and confirmed\n")
    assert "waiting until it does, Ctrl-C ends this" in err


def test_nothing_is_measured_while_an_alarm_is_raised(run: Command, broker: EmbeddedBroker) -> None:
    with broker.blocked_publishers():
        code, _, err = run("perf", "--seconds", "60", "-V", "VHOST")
    assert code == 1 and "the broker takes no messages now (low on test resources): nothing to mea" in err


def test_a_queue_has_bytes(run: Command) -> None:
    good(run("queue", "declare", "q", "-V", "VHOST"))
    good(run("publish", "x" * 2048, "-k", "q", "-V", "VHOST"))
    shown = good(run("queue", "show", "q", "-V", "VHOST")).splitlines()
    (line,) = [line for line in shown if line.startswith("bytes")]
    assert line.endswith("2.0 KiB")


def test_a_password_changes_and_the_tags_stay(run: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", StringIO("old\nnew\n"))
    good(run("user", "add", "pat", "--tags", "monitoring,policymaker"))
    good(run("limit", "set", "user", "pat", "max-channels=5"))
    assert good(run("user", "password", "pat")) == "user 'pat' has a new password\n"
    monkeypatch.setenv("EMBERMQ_PASSWORD", "new")
    assert "monitoring, policymaker" in good(run("user", "whoami", "--user", "pat"))
    monkeypatch.delenv("EMBERMQ_PASSWORD")
    (limits,) = rows(run("limit", "list", "--json"))
    assert limits == {"of": "user", "name": "pat", "limits": {"max-channels": 5}}
    assert run("user", "password", "nobody")[0] == 4
    good(run("user", "delete", "pat"))


def test_limits_come_and_go(run: Command) -> None:
    vhost = vhost_in(run)
    assert good(run("limit", "list")) == "there are no limits\n"
    told = good(run("limit", "set", "vhost", "VHOST", "max-queues=1", "max-connections=9"))
    assert told == f"virtual host '{vhost}' has the limits max-queues=1, max-connections=9\n"
    good(run("queue", "declare", "a", "-V", "VHOST"))
    code, _, err = run("queue", "declare", "b", "-V", "VHOST")
    assert code == 1 and "limit" in err
    assert "max-connections=9" in good(run("limit", "list"))
    assert good(run("limit", "delete", "vhost", "VHOST", "max-queues")) == (
        f"virtual host '{vhost}' has no limit max-queues\n"
    )
    good(run("queue", "declare", "b", "-V", "VHOST"))


def test_topic_permissions_go_again(run: Command) -> None:
    for exchange in ("amq.topic", "other"):
        good(run("permission", "grant-topic", "guest", exchange, "-V", "VHOST", "--write", "^a"))
    assert good(run("permission", "revoke-topic", "guest", "other", "-V", "VHOST")) == (
        "'guest' has topic permissions on exchange 'other' no more\n"
    )
    left = rows(run("permission", "list-topic", "-V", "VHOST", "--json"))
    assert [row["exchange"] for row in left] == ["amq.topic"]
    good(run("permission", "revoke-topic", "guest", "-V", "VHOST"))
    assert good(run("permission", "list-topic", "-V", "VHOST")) == "there are no topic permissions\n"


def test_who_is_there_by_virtual_host(run: Command, broker: EmbeddedBroker) -> None:
    from embermq.client import connect

    with connect(broker.url) as connection, connection.channel():
        for kind in ("connection", "channel"):
            assert len(rows(run(kind, "list", "-V", "/", "--json"))) == 1
            assert rows(run(kind, "list", "-V", "VHOST", "--json")) == []
    assert {row["vhost"] for row in rows(run("permission", "list", "-V", "VHOST", "--json"))} == {
        vhost_in(run)
    }


def test_an_application_may_publish_without_the_management(
    run: Command, broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", StringIO("hush\n"))
    good(run("user", "add", "plain"))
    good(run("permission", "grant", "plain", "-V", "VHOST"))
    good(run("queue", "declare", "q", "-V", "VHOST"))
    monkeypatch.setenv("EMBERMQ_PASSWORD", "hush")
    words = ("publish", "x", "-k", "q", "-V", "VHOST", "--user", "plain")
    address = broker.url.replace("guest:guest@", "").rstrip("/").removesuffix("%2F").rstrip("/")
    assert good(run(*words, "--amqp-url", address)) == "1 message published and confirmed\n"
    # Who may not ask the management where AMQP is, gets it at the usual port, or is told how to say it.
    monkeypatch.setattr("embermq.cli.command.messages.AMQP_PORT", 1)
    code, _, err = run(*words)
    assert code == 3 and "--amqp-url says where AMQP is" in err
    monkeypatch.delenv("EMBERMQ_PASSWORD")
    code, _, err = run(*words)
    assert code == 5 and "does not know user 'plain' with this password" in err
    good(run("user", "delete", "plain"))


def test_prefetch_for_all_consumers_of_a_channel_is_shown(run: Command, broker: EmbeddedBroker) -> None:
    import pika

    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        connection.channel().basic_qos(prefetch_count=8, global_qos=True)  # as Celery does
        assert "8 for all" in good(run("channel", "list"))


def test_help_has_one_line_for_a_short_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    out = capsys.readouterr().out
    assert "    definitions  everything durable as a file, in RabbitMQ's format\n" in out
    with pytest.raises(SystemExit):
        main(["completion", "--help"])
    assert '  zsh:   eval "$(embermq completion zsh)"\n' in capsys.readouterr().out
