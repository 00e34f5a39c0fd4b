"""The command line against a real broker: what people see, what scripts get, and what the exit code says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from io import StringIO
from pathlib import Path

import pytest

from embermq.cli.api import Api
from embermq.cli.main import main
from embermq.client import connect
from embermq.testing import EmbeddedBroker
from tests.support.cli_command import Command, good, rows, vhost_in


def test_a_queue_from_its_beginning_to_its_end(run: Command) -> None:
    assert (
        good(run("queue", "declare", "orders", "-V", "VHOST", "-a", "x-max-length=9"))
        == "queue 'orders' is there\n"
    )
    assert "orders" in good(run("queue", "list"))
    shown = good(run("queue", "show", "orders", "-V", "VHOST"))
    assert "x-max-length=9" in shown and "classic" in shown
    (queue,) = rows(run("queue", "list", "-V", "VHOST", "--json"))
    assert queue["name"] == "orders" and queue["arguments"] == {"x-max-length": 9}
    assert good(run("queue", "delete", "orders", "-V", "VHOST")) == "queue 'orders' is deleted\n"
    assert good(run("queue", "list", "-V", "VHOST")) == "there are no queues\n"


def test_what_is_refused_is_told_with_a_code(run: Command) -> None:
    assert run("queue", "show", "nobody", "-V", "VHOST")[::2] == (
        4,
        f"embermq: there is no queue 'nobody' in virtual host '{vhost_in(run)}'\n",
    )
    code, _, err = run("queue", "declare", "q", "-V", "VHOST", "-a", "x-max-length=many")
    assert code == 1 and "x-max-length" in err
    code, _, err = run("status", "--user", "nobody")
    assert code == 5 and "does not know user 'nobody'" in err
    code, _, err = run("status", "--url", "localhost:1")
    assert code == 3 and "no broker answers at localhost:1" in err
    for address in ("ftp://x", "localhost:99999", "localhost:http"):
        code, _, err = run("status", "--url", address)
        assert code == 2 and "is no address of a broker" in err
    assert run("user", "delete", "no body")[::2] == (4, "embermq: there is no user 'no body'\n")
    code, _, err = run("queue", "declare", "q", "-a", "nonsense")
    assert code == 2 and "expected NAME=VALUE" in err
    assert run("queue")[0] == 2
    assert run("connection", "close")[0] == 2


def test_publish_browse_consume(run: Command) -> None:
    good(run("queue", "declare", "q", "-V", "VHOST"))
    for number in range(3):
        out = good(run("publish", f"body {number}", "-k", "q", "-V", "VHOST", "--header", f"n={number}"))
        assert out == "1 message published and confirmed\n"
    table = good(run("queue", "browse", "q", "-V", "VHOST"))
    assert "body 0" in table and "n=2" in table
    (found,) = rows(run("queue", "browse", "q", "-V", "VHOST", "--header", "n=1", "--json"))
    assert found["payload"] == "body 1"
    assert good(run("consume", "q", "-V", "VHOST", "-n", "2")) == "body 0\nbody 1\n"
    lines = good(run("consume", "q", "-V", "VHOST", "--timeout", "0.2", "--requeue", "--json")).splitlines()
    assert json.loads(lines[0])["properties"]["headers"] == {"n": 2}
    assert good(run("consume", "q", "-V", "VHOST", "--timeout", "0.2")) == "body 2\n"
    assert good(run("queue", "browse", "q", "-V", "VHOST")) == "no message found\n"


def test_publish_lines_of_standard_input(run: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    good(run("queue", "declare", "q", "-V", "VHOST"))
    monkeypatch.setattr(sys, "stdin", io.StringIO("one\ntwo\n"))
    assert rows(run("publish", "-k", "q", "-V", "VHOST", "--json")) == {"published": 2, "unroutable": 0}
    assert good(run("consume", "q", "-V", "VHOST", "-n", "2")) == "one\ntwo\n"


def test_what_nobody_gets(run: Command) -> None:
    code, _, err = run("publish", "lost", "-k", "nobody", "-V", "VHOST", "--mandatory")
    assert code == 1 and "returned because no queue is bound" in err
    out = good(run("publish", "lost", "-k", "nobody", "-V", "VHOST"))
    nowhere = "reached no queue: nothing is bound to the default exchange with key 'nobody'"
    assert out == f"1 message published; 1 {nowhere}\n"
    found = rows(run("publish", "lost", "-e", "amq.topic", "-k", "x", "-V", "VHOST", "--json"))
    assert found == {"published": 1, "unroutable": 1}
    code, _, err = run("consume", "nobody", "-V", "VHOST")
    assert code == 4 and "no queue 'nobody'" in err
    code, _, err = run("publish", "x", "-e", "nobody", "-V", "VHOST")
    assert code == 4 and "no exchange 'nobody'" in err
    code, _, err = run("publish", "x", "--amqp-url", "amqp://localhost:1")
    assert code == 3
    code, _, err = run("publish", "x", "--priority", "300")
    assert code == 2 and "'300'; expected a number from 0 to 255" in err
    good(run("queue", "declare", "q", "-V", "VHOST"))
    code, _, err = run("queue", "move", "q", "nobody", "-V", "VHOST")
    assert code == 4 and "nobody" in err


def test_who_may_not_is_told_so(run: Command, broker: EmbeddedBroker) -> None:
    stranger = broker.url.replace("guest:guest@", "guest:wrong@")
    code, _, err = run("consume", "q", "--amqp-url", stranger)
    assert code == 5 and "refused user 'guest'" in err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["quue", "list"], "there is no command 'quue'; did you mean 'embermq queue'?"),
        (["--url", "http://x", "queue", "list"], "options come behind the command: embermq queue --url ..."),
        (["serve", "--amqp-prot", "1"], "there is no option '--amqp-prot'; did you mean '--amqp-port'?"),
        (["queue", "list", "--zzz=1"], "no option '--zzz'; 'embermq queue list --help' shows what there is"),
        (["queue", "lst"], "there is no action 'lst'; did you mean 'embermq queue list'?"),
        (["queue", "declare", "q", "--type", "xyz"], "there is no 'xyz'; there are: classic, quorum, stream"),
        (["zzzz"], "store, completion\n"),  # and nothing that is for the shell only
        (["queue"], "declare   make a queue"),
        ([], "publish messages and wait"),
    ],
)
def test_mistakes_are_answered_with_what_there_is(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert told in capsys.readouterr().err


def test_move_copy_drop_and_return(run: Command) -> None:
    for name in ("source", "target"):
        good(run("queue", "declare", name, "-V", "VHOST"))
    for number in range(5):
        good(run("publish", f"{number}", "-k", "source", "-V", "VHOST", "--header", f"n={number % 2}"))
    out = good(run("queue", "move", "source", "target", "-V", "VHOST", "--header", "n=1"))
    assert out == "2 messages moved from 'source' to 'target'\n"
    assert "1 message copied" in good(run("queue", "copy", "source", "target", "-V", "VHOST", "--limit", "1"))
    assert "1 message deleted" in good(run("queue", "drop", "target", "-V", "VHOST", "--body", "0"))
    assert good(run("consume", "target", "-V", "VHOST", "-n", "2")) == "1\n3\n"
    assert good(run("consume", "source", "-V", "VHOST", "-n", "3")) == "0\n2\n4\n"
    code, _, err = run("queue", "drop", "target", "-V", "VHOST")
    assert code == 2 and "say which messages" in err


def test_dead_letters_go_back(run: Command) -> None:
    good(run("queue", "declare", "dead", "-V", "VHOST"))
    letters = (
        "-a",
        "x-dead-letter-exchange=",
        "-a",
        "x-dead-letter-routing-key=dead",
        "-a",
        "x-message-ttl=0",
    )
    good(run("queue", "declare", "work", "-V", "VHOST", *letters))
    good(run("publish", "poor", "-k", "work", "-V", "VHOST"))
    assert good(run("consume", "dead", "-V", "VHOST", "-n", "1", "--requeue", "--timeout", "1")) == "poor\n"
    good(run("queue", "delete", "work", "-V", "VHOST"))
    good(run("queue", "declare", "work", "-V", "VHOST"))
    assert good(run("queue", "return", "dead", "-V", "VHOST")) == "1 dead letter sent back\n"
    assert good(run("consume", "work", "-V", "VHOST", "-n", "1")) == "poor\n"


def test_leases(run: Command, broker: EmbeddedBroker) -> None:
    vhost = vhost_in(run)
    assert "there are no open leases" in good(run("lease", "list", "-V", "VHOST"))
    good(run("queue", "declare", "orders", "-V", "VHOST"))
    for body in ("one", "two"):
        good(run("publish", body, "-k", "orders", "-V", "VHOST"))
    api = Api(broker.http_url, "guest", "guest")
    for name in ("first", "second"):
        api.post(f"/api/leases/{vhost}/orders", {"name": name, "max_messages": 1, "timeout_ms": 0})
    api.close()
    listed = rows(run("lease", "list", "--json", "-V", "VHOST"))
    assert [(row["name"], row["count"], row["expires_ms"]) for row in listed] == [
        ("first", 1, None),
        ("second", 1, None),
    ]
    assert re.search(r"orders +first +1 +\d+ (s|min) +never", good(run("lease", "list", "-V", "VHOST")))
    assert "lease 'first' is settled" in good(run("lease", "settle", "orders", "first", "-V", "VHOST"))
    assert "lease 'second' is released" in good(run("lease", "release", "orders", "second", "-V", "VHOST"))
    assert rows(run("lease", "list", "--json", "-V", "VHOST")) == []
    assert rows(run("queue", "show", "orders", "--json", "-V", "VHOST"))["messages_ready"] == 1
    assert run("lease", "release", "orders", "second", "-V", "VHOST")[0] == 4


def test_streams_and_super_streams(run: Command) -> None:
    good(run("queue", "declare", "events", "--type", "stream", "-V", "VHOST"))
    good(run("publish", "one", "-k", "events", "-V", "VHOST"))
    shown = rows(run("stream", "show", "events", "-V", "VHOST", "--json"))
    assert (shown["first_offset"], shown["next_offset"]) == (0, 1)
    assert good(run("stream", "offset", "events", "0", "-V", "VHOST")) == "0\n"
    assert good(run("consume", "events", "-V", "VHOST", "--offset", "first", "-n", "1")) == "one\n"
    declared = good(run("stream", "super-declare", "orders", "--partitions", "2", "-V", "VHOST"))
    assert declared == "super stream 'orders' has 2 partitions\n"
    assert "orders-0, orders-1" in good(run("stream", "super-list", "-V", "VHOST"))
    good(run("stream", "super-delete", "orders", "-V", "VHOST"))
    assert "orders" not in good(run("stream", "super-list", "-V", "VHOST"))
    good(run("stream", "super-declare", "by-key", "--keys", "eu,us", "-V", "VHOST"))
    assert run("stream", "show", "nobody", "-V", "VHOST")[0] == 4


def test_exchanges_and_bindings(run: Command) -> None:
    good(run("queue", "declare", "q", "-V", "VHOST"))
    good(run("exchange", "declare", "shop", "--type", "topic", "-V", "VHOST"))
    assert "shop" in good(run("exchange", "list", "-V", "VHOST"))
    bound = good(run("binding", "add", "shop", "q", "--routing-key", "order.#", "-V", "VHOST"))
    assert bound == "bound 'q' to 'shop' with key 'order.#'\n"
    assert "order.#" in good(run("binding", "list", "-V", "VHOST"))
    good(run("publish", "new", "-e", "shop", "-k", "order.new", "-V", "VHOST", "--mandatory"))
    good(run("binding", "remove", "shop", "q", "--routing-key", "order.#", "-V", "VHOST"))
    assert run("binding", "remove", "shop", "q", "--routing-key", "order.#", "-V", "VHOST")[0] == 4
    good(run("exchange", "delete", "shop", "-V", "VHOST"))
    assert "shop" not in good(run("exchange", "list", "-V", "VHOST"))


def test_users_permissions_vhosts(run: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hush\n")
    good(run("vhost", "add", "side", "--description", "a place"))
    good(run("user", "add", "ann", "--tags", "management", "--new-password-file", str(secret)))
    assert run("queue", "list", "-V", "side", "--user", "ann", "--password-file", str(secret))[0] == 5
    good(run("permission", "grant", "ann", "-V", "side", "--configure", "^ann"))
    assert (
        rows(run("queue", "list", "-V", "side", "--user", "ann", "--password-file", str(secret), "--json"))
        == []
    )
    assert "ann" in good(run("user", "whoami", "--user", "ann", "--password-file", str(secret)))
    assert good(run("user", "tags", "ann", "policymaker,monitoring")) == (
        "user 'ann' has the tags policymaker,monitoring\n"
    )
    me = rows(run("user", "whoami", "--user", "ann", "--password-file", str(secret), "--json"))
    assert me["tags"] == ["monitoring", "policymaker"], "and the password is what it was"
    assert good(run("user", "tags", "ann")) == "user 'ann' has no tags\n"
    assert run("user", "tags", "nobody", "management")[0] == 4
    assert "^ann" in good(run("permission", "list"))
    good(run("permission", "revoke", "ann", "-V", "side"))
    assert "^ann" not in good(run("permission", "list"))
    good(run("user", "delete", "ann"))
    assert "ann" not in good(run("user", "list"))
    good(run("vhost", "delete", "side"))
    assert "side" not in good(run("vhost", "list"))
    assert run("user", "add", "bob", "--new-password-file", str(tmp_path / "none"))[0] == 2
    monkeypatch.setattr("sys.stdin", StringIO(""))
    code, _, err = run("user", "add", "bob")
    assert (
        code == 2 and "no password came by standard input" in err and "bob" not in good(run("user", "list"))
    )


def test_policies(run: Command) -> None:
    good(run("queue", "declare", "orders", "-V", "VHOST"))
    good(run("policy", "set", "short", "^orders", "max-length=1", "-V", "VHOST", "--apply-to", "queues"))
    assert "max-length=1" in good(run("policy", "list", "-V", "VHOST"))
    assert "short" in good(run("queue", "show", "orders", "-V", "VHOST"))
    good(run("policy", "delete", "short", "-V", "VHOST"))
    assert good(run("policy", "list", "-V", "VHOST")) == "there are no policies\n"
    assert run("policy", "set", "x", ".*", "nonsense")[0] == 2


def test_connections(run: Command, broker: EmbeddedBroker) -> None:
    assert "nobody is connected" in good(run("connection", "list"))
    with connect(broker.url, reconnect=False) as connection, connection.channel():
        assert "guest" in good(run("connection", "list"))
        assert "guest" in good(run("channel", "list"))
        assert good(run("consumer", "list")) == "nobody consumes\n"
        (one,) = rows(run("connection", "list", "--json"))
        assert good(run("connection", "close", one["name"], "--reason", "enough")).startswith(
            "closed connection '127.0.0.1:"
        )
        deadline = time.monotonic() + 10
        while not connection.is_closed and time.monotonic() < deadline:
            time.sleep(0.01)
        assert connection.is_closed


def test_definitions_there_and_back(run: Command, tmp_path: Path) -> None:
    file = tmp_path / "definitions.json"
    good(run("queue", "declare", "q", "-V", "VHOST"))
    assert ": 1 queue\n" in good(run("definitions", "export", str(file), "-V", "VHOST"))
    assert file.stat().st_mode & 0o077 == 0
    good(run("queue", "delete", "q", "-V", "VHOST"))
    assert ": 1 queue\n" in good(run("definitions", "import", str(file), "-V", "VHOST"))
    assert [queue["name"] for queue in rows(run("queue", "list", "-V", "VHOST", "--json"))] == ["q"]
    code, _, err = run("definitions", "export", str(file))
    assert code == 0 and "left out, with their permissions: guest" in err
    code, _, err = run("definitions", "export", str(file), "--for", "embermq")
    assert code == 0 and err == "" and "embermq_scrypt" in file.read_text()
    file.write_text("{")
    code, _, err = run("definitions", "import", str(file))
    assert code == 2 and "not JSON" in err
    assert run("definitions", "import", str(tmp_path / "none"))[0] == 2


def test_status_and_top(run: Command, broker: EmbeddedBroker) -> None:
    assert "EmberMQ" in good(run("status"))
    assert "queue" in good(run("top", "--once", "--sort", "name"))
    assert "queues" in rows(run("top", "--json"))
    code, _, err = run("top")
    assert code == 2 and "needs a terminal" in err


def test_perf(run: Command) -> None:
    for words in ([], ["--type", "stream", "--rate", "200"], ["--auto-ack", "--no-confirms"]):
        for seconds in ("0.5", "5", "30"):  # on a busy machine half a second may be too short for anything
            found = rows(run("perf", "--seconds", seconds, "-V", "VHOST", "--json", *words))
            if found["published"] > 0 and found["consumed"] > 0:
                break
        assert found["published"] > 0 and found["consumed"] > 0, words
    assert rows(run("queue", "list", "-V", "VHOST", "--json")) == []
    assert run("perf", "--size", "1")[0] == run("perf", "--seconds", "0")[0] == 2


def test_names_cannot_play_with_the_terminal(run: Command) -> None:
    name = "\x1b[31m[bold]red"
    good(run("queue", "declare", name, "-V", "VHOST"))
    table = good(run("queue", "list", "-V", "VHOST"))
    assert "\x1b" not in table and "\\x1b[31m[bold]red" in table


def test_whoever_reads_may_stop_reading(broker: EmbeddedBroker) -> None:
    line = f"EMBERMQ_URL={broker.http_url} {sys.executable} -m embermq exchange list | head -1"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith("vhost") and done.stderr == ""


def test_consume_waits_for_what_comes(run: Command, broker: EmbeddedBroker) -> None:
    good(run("queue", "declare", "q", "-V", "VHOST"))
    vhost = vhost_in(run)

    def later() -> None:
        broker.wait_for_consumers("q", 1, vhost)
        with connect(broker.url_of(vhost)) as connection, connection.channel() as channel:
            channel.publish(b"\xff", "q")

    thread = threading.Thread(target=later)
    thread.start()
    assert good(run("consume", "q", "-V", "VHOST", "-n", "1")) == "base64:/w==\n"
    thread.join()


def declare_backlog(run: Command, broker: EmbeddedBroker, count: int) -> None:
    good(run("queue", "declare", "backlog", "-V", "VHOST", "-a", "x-queue-type=quorum"))
    with connect(broker.url_of(vhost_in(run))) as connection, connection.channel() as channel:
        channel.publish_batch((b"%d" % number for number in range(count)), "backlog")


@pytest.mark.parametrize("more", [(), ("--requeue",), ("--prefetch", "0"), ("--prefetch", "2")])
def test_consume_takes_what_it_shows_and_no_more(
    run: Command, broker: EmbeddedBroker, more: tuple[str, ...]
) -> None:
    """Not one message is sent that is not shown: others count as delivered, and may be lost by a limit."""
    declare_backlog(run, broker, 50)
    shown = 0
    for _ in range(6):
        first = 0 if "--requeue" in more else shown
        lines = good(run("consume", "backlog", "-V", "VHOST", "-n", "4", *more)).split()
        assert lines == [str(number) for number in range(first, first + 4)]
        shown += 4
    (queue,) = rows(run("queue", "list", "-V", "VHOST", "--json"))
    assert queue["message_stats"]["deliver_get"] == shown
    left = 50 if "--requeue" in more else 50 - shown
    assert len(good(run("consume", "backlog", "-V", "VHOST", "-n", str(left))).split()) == left


def test_consume_again_and_again_loses_nothing(run: Command, broker: EmbeddedBroker) -> None:
    """More often than the delivery limit of quorum queues (20), with all of them fetched each time."""
    declare_backlog(run, broker, 30)
    for number in range(25):
        lines = good(run("consume", "backlog", "-V", "VHOST", "--requeue", "--timeout", "0.05")).split()
        assert lines == [str(number) for number in range(30)], number


def test_consume_tells_scripts_that_nothing_came(run: Command) -> None:
    good(run("queue", "declare", "q", "-V", "VHOST"))
    code, out, err = run("consume", "q", "-V", "VHOST", "--timeout", "0.1")
    assert (code, out) == (1, "") and "no message came from 'q' within 0.1 s" in err
    good(run("publish", "one", "-k", "q", "-V", "VHOST"))
    code, out, err = run("consume", "q", "-V", "VHOST", "--timeout", "0.1", "-n", "3")
    assert (code, out) == (1, "one\n") and "only 1 of 3 messages came" in err


def test_consume_into_head_takes_what_head_has_shown(broker: EmbeddedBroker) -> None:
    with (
        broker.vhost() as vhost,
        connect(broker.url_of(vhost)) as connection,
        connection.channel() as channel,
    ):
        channel.queue_declare("q")
        channel.publish_batch([b"%d" % number for number in range(100)], "q")
        command = [sys.executable, "-m", "embermq", "consume", "q", "-V", vhost, "-n", "100"]
        environment = {**os.environ, "EMBERMQ_URL": broker.http_url}
        with (
            subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as consuming,
            subprocess.Popen(["head", "-3"], stdin=consuming.stdout, stdout=subprocess.PIPE) as head,
        ):
            assert consuming.stdout is not None
            consuming.stdout.close()  # ours: only head reads
            assert head.communicate(timeout=60)[0] == b"0\n1\n2\n"
            assert consuming.wait(60) == 0
        broker.wait_for_messages("q", 97, vhost)
        assert broker.messages("q", vhost)[0].body == b"3"
