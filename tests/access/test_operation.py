"""A broker as its administrator meets it: declarations in the file, reloads, logs, an audit, systemd."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest

from tests.access.issuer import AUDIENCE, Issuer
from tests.access.tenant import ask, connect, make_user, publish, put
from tests.support.certificates import Authority
from tests.support.pika_client import eventually
from tools.brokers import EmberBroker

SECRET = "swordfish"
SETTINGS = """
heartbeat = 17

[log]
audit_file = "AUDIT"

[[vhosts]]
name = "shop"
max_queues = 100

[[users]]
name = "boss"
password = "swordfish"
tags = ["administrator"]
max_channels = 50

[[users]]
name = "orders"
password_file = "PASSWORD"

[[permissions]]
user = "boss"

[[permissions]]
user = "boss"
vhost = "shop"

[[permissions]]
user = "orders"
vhost = "shop"
configure = ""
write = "^(events|amq\\\\.default)$"
read = "^orders"

[[topic_permissions]]
user = "orders"
vhost = "shop"
exchange = "events"
write = "^orders\\\\."

[[exchanges]]
vhost = "shop"
name = "events"
type = "topic"

[templates.jobs]
x-max-length = 10
x-overflow = "reject-publish"

[[queues]]
vhost = "shop"
name = "orders.new"
template = "jobs"
arguments = { x-max-length = 1000 }

[[bindings]]
vhost = "shop"
source = "events"
destination = "orders.new"
routing_key = "orders.#"
"""


class Configured:
    def __init__(self, directory: Path) -> None:
        (directory / "password").write_text("first line\nsecond line\n")
        self.file = directory / "embermq.toml"
        self.audit_file = directory / "audit.log"
        self.text = SETTINGS.replace("AUDIT", str(self.audit_file))
        self.text = self.text.replace("PASSWORD", str(directory / "password"))
        self.file.write_text(self.text)
        self.broker = EmberBroker(directory / "data", config=str(self.file))

    def log(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.broker.log_path.read_text().splitlines()]

    def audit(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.audit_file.read_text().splitlines()]

    def reload(self, text: str, said: str) -> dict[str, Any]:
        """Change the file, tell the broker, wait for its word."""
        count = len(self.log())
        self.file.write_text(text)
        self.broker.process.send_signal(signal.SIGHUP)
        told: dict[str, Any] = eventually(
            lambda: next((line for line in self.log()[count:] if said in line["message"]), None)
        )
        return told


@pytest.fixture(scope="module")
def configured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Configured]:
    made = Configured(tmp_path_factory.mktemp("configured"))
    with made.broker:
        yield made


def as_boss(broker: EmberBroker, *path: str, **more: Any) -> Any:
    return ask(broker, *path, login=f"boss:{SECRET}", **more)


def test_what_the_file_declares_is_there_and_durable(configured: Configured) -> None:
    broker = configured.broker
    for _ in range(2):
        with connect(broker, "orders", "shop", password="first line") as connection:
            channel = connection.channel()
            publish(channel, "events", "orders.eu", delivery_mode=2)
            assert (
                eventually(lambda channel=channel: channel.basic_get("orders.new", auto_ack=True)[2]) == b"x"
            )
            with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="topic 'x'"):
                publish(connection.channel(), "events", "x")
        queue = as_boss(broker, "GET", "queues", "shop", "orders.new").json
        assert queue["durable"] and queue["arguments"] == {
            "x-max-length": 1000,
            "x-template": "jobs",
        }
        assert as_boss(broker, "GET", "vhost-limits", "shop").json[0]["value"] == {"max-queues": 100}
        assert as_boss(broker, "GET", "users", "boss").json["limits"] == {"max-channels": 50}
        broker.kill()
        broker.start()


def test_there_is_no_guest_where_the_file_names_users(configured: Configured) -> None:
    assert [user["name"] for user in as_boss(configured.broker, "GET", "users").json] == ["boss", "orders"]
    assert ask(configured.broker, "GET", "whoami").status == 401


def test_what_was_changed_since_is_not_changed_back(configured: Configured) -> None:
    broker = configured.broker
    body = {"password": "changed", "tags": ""}
    assert as_boss(broker, "PUT", "users", "orders", body=body).status == 204
    broker.kill()
    broker.start()
    connect(broker, "orders", "shop", password="changed").close()


def test_a_reload_applies_what_it_can_and_says_what_it_cannot(configured: Configured) -> None:
    text = configured.text.replace("heartbeat = 17", "heartbeat = 23\nframe_max = 4096")
    configured.reload(text + '[[queues]]\nname = "late"\n', "changed: heartbeat")
    (warning,) = [line for line in configured.log() if "a restart is needed" in line["message"]]
    assert warning["message"] == "a restart is needed for: frame_max" and warning["level"] == "warning"
    assert as_boss(configured.broker, "GET", "queues", "/", "late").status == 200
    parameters = pika.ConnectionParameters(
        "127.0.0.1", configured.broker.port, credentials=pika.PlainCredentials("boss", SECRET), heartbeat=None
    )
    with pika.BlockingConnection(parameters):
        found = as_boss(configured.broker, "GET", "connections").json
        assert [(each["timeout"], each["frame_max"]) for each in found] == [(23, 131072)]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("\nheartbeet = 5", "unknown setting 'heartbeet'; did you mean 'heartbeat'?"),
        ('\n[[permissions]]\nuser = "nobody"', "there is no user 'nobody'"),
        ('\n[[queues]]\nname = "x"\nvhost = "nowhere"', "there is no virtual host 'nowhere'"),
        ('\n[[queues]]\nname = "x"\narguments = { x-max-length = "many" }', "invalid arg 'x-max-length'"),
        ('\n[[bindings]]\nsource = "nothing"\ndestination = "late"', "no exchange 'nothing'"),
        ('\n[[users]]\nname = "new"\npassword_file = "/nowhere"', "the password of user 'new'"),
        ('\n[[permissions]]\nuser = "orders"\nwrite = "(?!(a+)+b)"', "is no good pattern"),
    ],
)
def test_a_reload_with_a_mistake_says_which(configured: Configured, more: str, said: str) -> None:
    text = configured.text
    text = text.replace("heartbeat = 17", "heartbeet = 17") if "heartbeet" in more else text + more
    told = configured.reload(text, "the settings were not read anew")
    assert said in told["message"] and told["level"] == "error"


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ('[tls]\nclient_certificates = "required"\nauthorities = "/nowhere"\n', "TLS cannot be set up"),
        ('[oauth]\nkeys = ["/nowhere"]\naudience = "x"\n', "oauth.keys: /nowhere"),
        ('[log]\nfile = "/nowhere/log"\n', "log.file is '/nowhere/log', which cannot be opened"),
        ('[log]\naudit_file = "/"\n', "log.audit_file is '/', which cannot be opened: Is a directory"),
        ("[templates.t]\nx-max-length = -1\n", "invalid arg 'x-max-length'"),
        ('[[queues]]\nname = "x"\narguments = { x-max-length = "many" }\n', "invalid arg 'x-max-length'"),
        ('[[bindings]]\nsource = "late"\ndestination = "nothing"\n', "no queue 'nothing'"),
        ('[[users]]\nname = "new"\npassword_file = "/nowhere"\n', "the password of user 'new'"),
    ],
)
def test_a_reload_that_is_refused_changes_nothing(tmp_path: Path, wrong: str, said: str) -> None:
    """Every kind of setting that a reload applies, together with one that cannot be."""
    issuer, authority = Issuer(tmp_path), Authority(tmp_path)
    sections = {
        "log": {"audit_file": str(tmp_path / "audit.log")},
        "tls": {"certificate": str(authority.issue("server")), "amqp_port": 0, "http_port": 0},
    }
    file = tmp_path / "embermq.toml"
    file.write_text(toml(sections))
    address = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(address)
        systemd.settimeout(60)
        environment = {"NOTIFY_SOCKET": address}
        with EmberBroker(tmp_path / "data", config=str(file), env=environment) as broker:
            assert systemd.recv(4096).startswith(b"READY=1")
            before = ask(broker, "GET", "definitions").json
            section, _, rest = wrong.partition("\n")
            new = {
                **sections,
                "proxy": {"trusted": ["127.0.0.1"]},
                "oauth": {"keys": [str(issuer.jwks_file)], "audience": AUDIENCE},
                "limits": {"connections": 1},
            }
            name = section.strip("[]")
            text = toml({key: value for key, value in new.items() if key != name})
            if name in sections:
                kept = {key: value for key, value in sections[name].items() if f"{key} = " not in rest}
                wrong = toml({name: kept}) + rest
            more = [
                ("vhosts", 'name = "other"'),
                ("users", 'name = "mallory"\npassword = "mallory"\ntags = ["administrator"]'),
                ("permissions", 'user = "mallory"\nvhost = "other"'),
                ("permissions", 'user = "guest"\nvhost = "other"'),
                ("topic_permissions", 'user = "guest"\nexchange = "late"\nwrite = "x"'),
                ("exchanges", 'name = "late"\ntype = "topic"'),
                ("queues", 'name = "late"\narguments = { x-queue-type = "stream" }'),
                ("queues", 'name = "later"\nvhost = "other"'),
                ("bindings", 'source = "amq.topic"\ndestination = "late"'),
                ("bindings", 'source = "amq.topic"\ndestination = "late"\ndestination_type = "exchange"'),
            ]
            file.write_text(text + "".join(f"[[{part}]]\n{fields}\n" for part, fields in more) + wrong)
            broker.process.send_signal(signal.SIGHUP)
            assert systemd.recv(4096).startswith(b"RELOADING=1")
            assert systemd.recv(4096) == b"READY=1"
            (told,) = [
                record["message"]
                for line in broker.log_path.read_text().splitlines()
                if "not read anew" in (record := json.loads(line))["message"]
            ]
            assert said in told
            assert ask(broker, "GET", "whoami", token=issuer.token("tag:administrator")).status == 401
            assert ask(broker, "GET", "definitions").json == before
            with connect(broker, "guest"):  # which no proxy has announced
                connect(broker, "guest").close()  # and there is no limit
            broker.kill()
            file.write_text(toml(sections))
            broker.start()
            assert ask(broker, "GET", "definitions").json == before


def toml(sections: dict[str, dict[str, Any]]) -> str:
    """JSON's texts, numbers and lists are TOML's, too."""
    return "".join(
        f"[{name}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items())
        for name, settings in sections.items()
    )


def test_tls_that_the_next_start_would_refuse_is_refused(tmp_path: Path) -> None:
    made = Configured(tmp_path)
    with made.broker as broker:
        more = '[tls]\ncertificate = "/nowhere"\n[proxy]\ntrusted = ["127.0.0.1"]\n'
        told = made.reload(made.text + more, "the settings were not read anew")
        assert "TLS cannot be set up with /nowhere" in told["message"]
        assert as_boss(broker, "GET", "overview").status == 200, "which no proxy has announced"


def test_tls_is_turned_on_by_a_restart(tmp_path: Path) -> None:
    made = Configured(tmp_path)
    certificate = Authority(tmp_path).issue("server")
    with made.broker as broker:
        more = toml({"tls": {"certificate": str(certificate), "amqp_port": 0, "http_port": 0}})
        told = made.reload(made.text + more, "a restart is needed")
        assert told["message"] == ("a restart is needed for: tls.certificate, tls.amqp_port, tls.http_port")
        assert len(as_boss(broker, "GET", "overview").json["listeners"]) == 2
        broker.stop()
        broker.start()
        assert len(as_boss(broker, "GET", "overview").json["listeners"]) == 4
        told = made.reload(made.text, "a restart is needed")
        assert "tls.certificate" in told["message"]


@pytest.mark.parametrize("obstacle", ["directory", "no directory"])
def test_a_log_that_cannot_be_rotated_is_no_reason_to_stop(tmp_path: Path, obstacle: str) -> None:
    file = tmp_path / "logs" / "log"
    file.parent.mkdir()
    with EmberBroker(env={"EMBERMQ_LOG_FILE": str(file)}) as broker:
        if obstacle == "directory":
            file.rename(tmp_path / "moved")
            file.mkdir()
        else:
            file.parent.rename(tmp_path / "away")
        for _ in range(20):
            connect(broker, "guest").close()
        broker.process.send_signal(signal.SIGHUP)
        (complaint,) = eventually(lambda: broker.log_path.read_text().splitlines())
        assert complaint.startswith(f"embermq: log file {file}: cannot be opened anew")
        moved = tmp_path / "moved" if obstacle == "directory" else tmp_path / "away" / "log"
        assert eventually(lambda: "the settings were not read anew" in moved.read_text())
        assert moved.read_text().count("user 'guest' in vhost '/'") == 20
        if obstacle == "directory":
            file.rmdir()
        else:
            file.parent.mkdir()
        connect(broker, "guest").close()
        assert eventually(lambda: file.exists() and "user 'guest' in vhost '/'" in file.read_text())


def test_a_certificate_that_has_expired_is_told_of(tmp_path: Path) -> None:
    certificate = Authority(tmp_path).issue("server", expired=True)
    settings = {"CERTIFICATE": str(certificate), "AMQP_PORT": "0", "HTTP_PORT": "0"}
    with EmberBroker(env={f"EMBERMQ_TLS_{name}": value for name, value in settings.items()}) as broker:
        log = broker.log_path.read_text()
        assert f"the certificate {certificate} has expired on 20" in log and "clients will refuse it" in log


def test_records_know_connection_channel_user_and_vhost(configured: Configured) -> None:
    with connect(configured.broker, "boss", password=SECRET) as connection:
        connection.channel()
        with pytest.raises(pika.exceptions.ChannelClosedByBroker):
            connection.channel().queue_declare("no such", passive=True)
        (name,) = [each["name"] for each in as_boss(configured.broker, "GET", "connections").json]
    records = [line for line in configured.log() if line.get("connection") == name]
    (refused,) = [line for line in records if "no queue 'no such'" in line["message"]]
    assert (refused["channel"], refused["user"], refused["vhost"]) == (2, "boss", "/")
    assert refused["logger"] == "embermq.connection" and refused["time"].endswith("Z")


def test_the_audit_tells_of_logins_refusals_and_changes(configured: Configured) -> None:
    broker = configured.broker
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        connect(broker, "orders", password="guess")
    body = {"password": SECRET, "tags": "management"}
    assert as_boss(broker, "PUT", "users", "dora", body=body).status == 201
    assert as_boss(broker, "DELETE", "users", "dora").status == 204
    with connect(broker, "orders", "shop", password="changed") as connection:
        with pytest.raises(pika.exceptions.ChannelClosedByBroker):
            connection.channel().queue_declare("forbidden")
    assert ask(broker, "GET", "users", login="orders:changed").status == 401
    refusals = [line for line in configured.audit() if line["event"] == "access.refused"]
    texts = [(line["actor"], line["about_error"]) for line in refusals[-2:]]
    assert texts[0] == (
        "orders",
        "configure access to queue 'forbidden' in vhost 'shop' refused for user 'orders'",
    )
    assert texts[1][0] == "orders" and refusals[-1]["about_request"] == "GET /api/users"
    told = [(line["event"], line["actor"], line.get("about_name")) for line in configured.audit()]
    count = len([event for event, _, _ in told if event == "user.authentication.success"])
    for _ in range(3):
        as_boss(broker, "GET", "whoami")
    again = [line for line in configured.audit() if line["event"] == "user.authentication.success"]
    assert len(again) == count, "a login by HTTP is not told of with every request"
    assert ("user.created", "boss", "dora") in told and ("user.deleted", "boss", "dora") in told
    assert "user.authentication.failure" in [event for event, _, _ in told]
    (failure,) = [line for line in configured.audit() if line["event"] == "user.authentication.failure"][-1:]
    assert failure["about_name"] == "orders" and failure["about_peer_host"] == "127.0.0.1"


def test_secrets_are_nowhere(configured: Configured) -> None:
    """Not in logs, not in answers, not on the command line, not in what the commands print."""
    broker = configured.broker
    connect(broker, "boss", password=SECRET).close()
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        connect(broker, "boss", password=SECRET + "2")
    assert ask(broker, "GET", "overview", login=f"boss:{SECRET}2").status == 401
    texts = [broker.log_path.read_text(), configured.audit_file.read_text()]
    for path in (["overview"], ["users"], ["definitions"], ["connections"], ["nodes"]):
        texts.append(json.dumps(as_boss(broker, "GET", *path).json))
    texts.append(Path(f"/proc/{broker.process.pid}/cmdline").read_text())
    environment = {**os.environ, "EMBERMQ_CONFIG": str(configured.file)}
    configured.file.write_text(configured.text)
    shown = subprocess.run(
        [sys.executable, "-m", "embermq", "config", "show"],
        env=environment, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert 'password = "********"' in shown.stdout
    texts += [shown.stdout, shown.stderr]
    assert [text for text in texts if SECRET in text or "first line" in text] == []


def test_on_a_terminal_logs_are_lines_for_people() -> None:
    with EmberBroker(env={"EMBERMQ_LOG_FORMAT": "text"}) as broker:
        with connect(broker, "guest") as connection:
            with pytest.raises(pika.exceptions.ChannelClosedByBroker):
                connection.channel().queue_declare("two\nlines", passive=True)
        text = eventually(lambda: "twolines" in (log := broker.log_path.read_text()) and log)
        assert " INFO 127.0.0.1:" in text and "'twolines' in vhost '/'  [user='guest']" in text


# -- systemd


def test_word_is_sent_to_systemd_and_its_sockets_are_used(tmp_path: Path) -> None:
    address = str(tmp_path / "notify")
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening,
        socket.create_server(("127.0.0.1", 0)) as amqp,
        socket.create_server(("127.0.0.1", 0)) as http,
    ):
        listening.bind(address)
        listening.settimeout(60)
        # As systemd does it: descriptors from 3 on, and our own process number in the environment. Both are
        # moved out of the way first: where this process has them is a matter of chance.
        program = (
            "import fcntl, os, sys\n"
            f"amqp, http = [fcntl.fcntl(n, fcntl.F_DUPFD, 100) for n in ({amqp.fileno()}, {http.fileno()})]\n"
            "os.dup2(amqp, 3); os.dup2(http, 4)\n"
            "os.set_inheritable(3, True); os.set_inheritable(4, True)\n"
            "os.environ |= {'LISTEN_PID': str(os.getpid()), 'LISTEN_FDS': '2'}\n"
            "os.environ['LISTEN_FDNAMES'] = 'amqp:http'\n"
            "command = [sys.executable, '-m', 'embermq', 'serve', '--data-dir', sys.argv[1]]\n"
            "os.execv(sys.executable, command)\n"
        )
        process = subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path / "data")],
            pass_fds=(amqp.fileno(), http.fileno()),
            env={**os.environ, "NOTIFY_SOCKET": address},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        try:
            ready = listening.recv(4096).decode()
            port = amqp.getsockname()[1]
            assert ready.startswith("READY=1\nSTATUS=EmberMQ ") and f"amqp://127.0.0.1:{port}" in ready
            connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port))
            connection.channel().queue_declare("q", durable=True)
            process.send_signal(signal.SIGHUP)
            assert listening.recv(4096).startswith(b"RELOADING=1\nMONOTONIC_USEC=")
            assert listening.recv(4096) == b"READY=1"
            process.terminate()
            assert listening.recv(4096) == b"STOPPING=1"
            with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as farewell:
                while True:
                    connection.process_data_events(1)
            assert farewell.value.reply_code == 320
            assert process.wait(60) == 0
        finally:
            process.kill()
            process.communicate()


def test_a_hangup_while_the_broker_stops_is_too_late(tmp_path: Path) -> None:
    settings = tmp_path / "embermq.toml"
    settings.write_text("")
    with EmberBroker(tmp_path / "data", config=str(settings)) as broker:
        silent = pika.BlockingConnection(pika.URLParameters(broker.url))  # the stop waits for its close-ok
        process = broker.process
        process.send_signal(signal.SIGTERM)
        eventually(lambda: '"stopping"' in broker.log_tail())
        settings.write_text('[[queues]]\nname = "late"\n')
        process.send_signal(signal.SIGHUP)
        assert process.wait(60) == 0
        assert "a fault of ours" not in broker.log_tail()
        assert "read anew" not in broker.log_tail()
        with pytest.raises(pika.exceptions.AMQPConnectionError):
            silent.close()


@pytest.mark.parametrize("kind", ["unix", "no listener", "datagrams"])
def test_a_socket_of_systemd_that_is_of_no_use_is_refused(tmp_path: Path, kind: str) -> None:
    family = socket.AF_UNIX if kind == "unix" else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM if kind == "datagrams" else socket.SOCK_STREAM) as passed:
        passed.bind(str(tmp_path / "amqp.sock") if kind == "unix" else ("127.0.0.1", 0))
        if kind == "unix":
            passed.listen()
        program = (
            "import os, sys\n"
            f"os.dup2({passed.fileno()}, 3); os.set_inheritable(3, True)\n"
            "os.environ |= {'LISTEN_PID': str(os.getpid()), 'LISTEN_FDS': '1', 'LISTEN_FDNAMES': 'amqp'}\n"
            "command = [sys.executable, '-m', 'embermq', 'serve', '--data-dir', sys.argv[1]]\n"
            "os.execv(sys.executable, command)\n"
        )
        found = subprocess.run(
            [sys.executable, "-c", program, str(tmp_path / "data")],
            pass_fds=[passed.fileno()],
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert found.returncode == 1, found.stderr
    wanted = (
        "one that listens (Accept=no)" if kind == "no listener" else "one of TCP (ListenStream= with a port)"
    )
    last = f"embermq: cannot listen on the socket that systemd passed for amqp: expected {wanted}"
    assert found.stderr.splitlines()[-1] == last


def test_a_limit_of_connections_for_all(tmp_path: Path) -> None:
    with EmberBroker(env={"EMBERMQ_LIMITS_CONNECTIONS": "1"}) as broker:
        make_user(broker, "anna")
        with connect(broker, "guest"):
            with pytest.raises(
                pika.exceptions.ProbableAccessDeniedError, match=r"node connection limit \(1\)"
            ):
                connect(broker, "anna")
        put(broker, "vhosts", "other")
