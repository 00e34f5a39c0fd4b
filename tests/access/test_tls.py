"""TLS on AMQP and HTTP, client certificates, certificates that change, and what is refused."""

from __future__ import annotations

import json
import re
import signal
import socket
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import amqp
import pika
import pytest

from embermq.cli.main import main
from embermq.net.tls import TLSError, server_context
from tests.access.secured import Secured
from tests.access.tenant import ask, make_user
from tests.support.certificates import Authority
from tests.support.pika_client import eventually
from tests.support.pika_streams import unpacked


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    made = Secured(tmp_path_factory.mktemp("tls"))
    with made.broker as broker:
        make_user(broker, "anna")
        yield made


def test_messages_pass_over_tls(secured: Secured) -> None:
    with secured.connect(secured.context()) as connection:
        channel = connection.channel()
        channel.queue_declare("tls")
        shown = [each["ssl"] for each in ask(secured.broker, "GET", "connections").json]
        assert shown == [True]
        body = b"x" * 300_000
        channel.basic_publish("", "tls", body)
        assert eventually(lambda: channel.basic_get("tls", auto_ack=True)[2]) == body


def test_blocks_of_a_stream_pass_over_tls(secured: Secured) -> None:
    """They stand beside the other output, and are sent as pieces."""
    with secured.connect(secured.context()) as connection:
        channel = connection.channel()
        channel.queue_declare("tls.stream", durable=True, arguments={"x-queue-type": "stream"})
        channel.tx_select()
        bodies = [b"%d " % number * 150 for number in range(4000)]
        bodies[1234] = b"large" * 60_000  # several frames
        for body in bodies:
            channel.basic_publish("", "tls.stream", body)
        channel.tx_commit()
        arguments = {"x-stream-offset": 3, "x-stream-end-offset": 3990, "x-stream-blocks": True}
        found: list[tuple[int, bytes]] = []
        for _, _, block in channel.consume("tls.stream", auto_ack=True, arguments=arguments):
            found += unpacked(block)
        assert found == list(enumerate(bodies))[3:3990]
        channel.queue_delete("tls.stream")


@pytest.mark.parametrize(
    ("within", "unit", "status"),
    [("0", "days", 200), ("1", "weeks", 503), ("1", "ages", 400), ("x", "days", 400)],
)
def test_the_end_of_a_certificate_is_seen_coming(
    secured: Secured, within: str, unit: str, status: int
) -> None:
    path = ("health", "checks", "certificate-expiration", within, unit)
    assert ask(secured.broker, "GET", *path).status == status


def test_management_over_tls(secured: Secured) -> None:
    url = f"https://127.0.0.1:{secured.https}/api/overview"
    request = urllib.request.Request(url, headers={"authorization": "Basic Z3Vlc3Q6Z3Vlc3Q="})
    with urllib.request.urlopen(request, context=secured.context(), timeout=60) as response:
        listeners = json.loads(response.read())["listeners"]
    assert {"amqp", "amqp/ssl", "http", "https"} == {listener["protocol"] for listener in listeners}


def test_the_command_line_says_whom_it_does_not_trust(
    secured: Secured, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["status", "--url", f"https://localhost:{secured.https}"]
    assert main(words) == 3
    assert f"the certificate of localhost:{secured.https} is not trusted: " in capsys.readouterr().err
    monkeypatch.setenv("SSL_CERT_FILE", str(secured.authority.file))
    assert main(words) == 0


def test_a_certificate_without_its_key_is_told_as_such(secured: Secured) -> None:
    lonely = secured.authority.directory / "lonely.pem"
    lonely.write_text(secured.authority.file.read_text())
    with pytest.raises(TLSError, match=r"lonely.pem: it has no private key; tls.key names"):
        server_context(str(lonely))


def test_a_certificate_is_a_login(secured: Secured) -> None:
    secured.authority.issue("anna")
    external = pika.credentials.ExternalCredentials()
    with secured.connect(secured.context("anna"), external) as connection:
        connection.channel().queue_declare("annas", exclusive=True)
    secured.authority.issue("nobody")
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        secured.connect(secured.context("nobody"), external)
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        secured.connect(secured.context(), external)  # without a certificate it is not even offered


def test_a_password_beside_a_certificate_that_names_no_user(secured: Secured) -> None:
    """py-amqp takes EXTERNAL wherever it is offered, and does not try its password then."""
    certificate = str(secured.authority.issue("passport"))
    security = {
        "ca_certs": str(secured.authority.file),
        "certfile": certificate,
        "keyfile": certificate,
        "server_hostname": "localhost",
    }
    with amqp.Connection(f"127.0.0.1:{secured.amqps}", ssl=security, connect_timeout=60) as connection:
        connection.channel().queue_declare(exclusive=True)


def test_a_certificate_of_another_authority_is_refused(secured: Secured, tmp_path: Path) -> None:
    Authority(tmp_path, "another").issue("anna")
    context = secured.context()
    context.load_cert_chain(tmp_path / "anna.pem")
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        secured.connect(context, pika.credentials.ExternalCredentials())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    "weakness",
    [
        {"maximum_version": ssl.TLSVersion.TLSv1_1, "minimum_version": ssl.TLSVersion.TLSv1},
        {"maximum_version": ssl.TLSVersion.TLSv1_2, "ciphers": "AES128-SHA:@SECLEVEL=0"},
    ],
    ids=["old version", "no forward secrecy"],
)
def test_what_is_weak_is_refused(secured: Secured, weakness: dict[str, Any]) -> None:
    context = secured.context()
    if "ciphers" in weakness:
        context.set_ciphers(weakness.pop("ciphers"))
    for name, value in weakness.items():
        setattr(context, name, value)
    with socket.create_connection(("127.0.0.1", secured.amqps), timeout=60) as plain:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            context.wrap_socket(plain, server_hostname="localhost")


def test_certificates_are_renewed_without_a_restart(secured: Secured) -> None:
    with secured.connect(secured.context()) as before:
        old = secured.serial()
        secured.authority.issue("server")
        secured.broker.process.send_signal(signal.SIGHUP)
        new = eventually(lambda: (found := secured.serial()) != old and found)
        secured.authority.issue("server")  # and without being told
        newest = eventually(lambda: (found := secured.serial()) != new and found)
        secured.certificate.write_text("nonsense")
        eventually(lambda: "the old ones stay" in secured.broker.log_path.read_text())
        assert secured.serial() == newest
        secured.authority.issue("server")
        before.channel().queue_declare("still here", exclusive=True)


def test_plain_bytes_on_the_tls_port_and_silence_harm_nobody(secured: Secured) -> None:
    with socket.create_connection(("127.0.0.1", secured.amqps), timeout=60) as stranger:
        stranger.sendall(b"AMQP\x00\x00\x09\x01")
        assert stranger.recv(100)[:1] in (b"", b"\x15"), "nothing, or an alert"
    with socket.create_connection(("127.0.0.1", secured.amqps), timeout=60):
        secured.connect(secured.context()).close()


def test_with_tls_only_there_are_no_other_ports(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate = authority.issue("server", password=b"swordfish")
    file = tmp_path / "embermq.toml"
    file.write_text(f"""
data_dir = "{tmp_path / "data"}"
[tls]
certificate = "{certificate}"
key_password = "swordfish"
amqp_port = 0
http_port = 0
only = true
client_certificates = "required"
authorities = "{authority.file}"
""")
    process = subprocess.Popen(
        [sys.executable, "-m", "embermq", "serve", "--config", str(file)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        match = re.fullmatch(
            r"EmberMQ \S+ ready: amqps://127.0.0.1:(\d+) https://127.0.0.1:\d+ \(\w+\)\n", line
        )
        assert match, line
        context = ssl.create_default_context(cafile=str(authority.file))
        with socket.create_connection(("127.0.0.1", int(match[1])), timeout=60) as plain:
            got = b""
            try:  # without a certificate: TLS 1.3 says no when the client thinks that it is through
                with context.wrap_socket(plain, server_hostname="localhost") as secured:
                    secured.sendall(b"AMQP\x00\x00\x09\x01")
                    got = secured.recv(1)
            except (ssl.SSLError, ConnectionError):
                pass
            assert got == b""
    finally:
        process.terminate()
        _, said = process.communicate(timeout=60)
    assert process.returncode == 0 and "swordfish" not in said
    file.write_text(file.read_text().replace("swordfish", "wrong"))
    failed = subprocess.run(
        [sys.executable, "-m", "embermq", "serve", "--config", str(file)],
        capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert failed.returncode == 1 and f"TLS cannot be set up with {certificate}" in failed.stderr
