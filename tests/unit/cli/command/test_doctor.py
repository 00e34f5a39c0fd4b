"""`embermq doctor` on set-ups that are well and that are not."""

from __future__ import annotations

import json
import os
import socket
import time
from pathlib import Path

import pytest

from embermq.cli.api import Api
from embermq.cli.main import main
from embermq.testing import EmbeddedBroker
from embermq.testing.host import ThreadHost
from tests.support.certificates import Authority
from tools.brokers import EmberBroker

PUBLICATION = {"routing_key": "q", "payload": "x", "payload_encoding": "string", "properties": {}}
REPOSITORY = Path(__file__).resolve().parents[4]


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration file that names a data directory, and nothing else from outside."""
    for name in list(os.environ):
        if name.startswith("EMBERMQ_"):
            monkeypatch.delenv(name)
    file = tmp_path / "embermq.toml"
    file.write_text(f'data_dir = "{tmp_path}/data"\namqp_port = 0\nhttp_port = 0\n')
    file.chmod(0o600)
    return file


def doctor(settings: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    code = main(["doctor", "--config", str(settings)])
    return code, capsys.readouterr().out


def test_a_sound_set_up(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = doctor(settings, capsys)
    assert code == 0 and "✗" not in said
    for what in (
        "version: EmberMQ ",
        "open files: ",
        "disk: ",
        "sync: ",
        "clock: ",
        "port: any for AMQP is free",
    ):
        assert what in said
    assert list(settings.parent.glob(".embermq-doctor*")) == []
    assert main(["doctor", "--config", str(settings), "--json"]) == 0
    assert {"state", "what", "told"} == set(json.loads(capsys.readouterr().out)[0])


def test_passwords_that_others_may_read(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings.write_text(settings.read_text() + '[[users]]\nname = "a"\npassword = "swordfish"\n')
    assert doctor(settings, capsys)[0] == 0
    settings.chmod(0o644)
    code, said = doctor(settings, capsys)
    assert code == 1 and "✗ settings: " in said and "chmod 600" in said and "swordfish" not in said


def test_ports_and_addresses(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        settings.write_text(settings.read_text().replace("amqp_port = 0", f"amqp_port = {port}"))
        assert f"! port: {port} for AMQP is taken" in doctor(settings, capsys)[1]
    settings.write_text(settings.read_text() + 'bind = "0.0.0.0"\n')
    assert "! TLS: none, and 0.0.0.0 may be reached" in doctor(settings, capsys)[1]


def test_a_clock_that_went_back(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = settings.parent / "data"
    data.mkdir(mode=0o755)
    data.chmod(0o755)
    (data / "file").touch()
    os.utime(data / "file", (time.time() + 9999,) * 2)
    code, said = doctor(settings, capsys)
    assert code == 1 and "✗ clock: " in said and "! data: others may read" in said


def test_the_default_password(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with EmberBroker() as broker:
        settings.write_text(settings.read_text().replace("http_port = 0", f"http_port = {broker.http_port}"))
        assert "! password: guest has the password guest" in doctor(settings, capsys)[1]


def test_a_lease_that_nobody_comes_back_for(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with EmbeddedBroker() as broker:
        port = broker.location.http_port
        settings.write_text(settings.read_text().replace("http_port = 0", f"http_port = {port}"))
        api = Api(broker.http_url, "guest", "guest")
        api.put("/api/queues/%2F/q", {})
        api.post("/api/exchanges/%2F/amq.default/publish", PUBLICATION)
        api.post("/api/leases/%2F/q", {"name": "forgotten"})
        api.close()
        assert "leases" not in doctor(settings, capsys)[1]
        host = broker.running
        assert isinstance(host, ThreadHost)
        (lease,) = host.inside.app.broker.vhosts["/"].leases.open_ones()
        lease.created_ms -= 3 * 24 * 3600 * 1000
        assert "! leases: the oldest has been open for 3 days" in doctor(settings, capsys)[1]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ('[tls]\ncertificate = "TMP/other.pem"\nkey = "TMP/server.pem"', "TLS: TLS cannot be set up with"),
        ('[tls]\ncertificate = "TMP/missing.pem"', "TLS: TLS cannot be set up with TMP/missing.pem"),
        ('[tls]\ncertificate = "TMP/old.pem"', "TLS: the certificate TMP/old.pem has expired on 20"),
        ('[oauth]\naudience = "x"\nkeys = ["TMP/missing.json"]', "tokens: oauth.keys: TMP/missing.json"),
        ('[oauth]\naudience = "x"\nkeys = ["TMP/server.pem"]', "tokens: oauth.keys: TMP/server.pem: no keys"),
        (
            '[oauth]\naudience = "x"\njwks_url = "https://x/"\njwks_authorities = "TMP/missing.pem"',
            "tokens: oauth.jwks_authorities is 'TMP/missing.pem': No such file",
        ),
        ('[log]\nfile = "TMP"', "log: log.file is 'TMP', which cannot be opened: Is a directory"),
        ('[log]\nfile = "TMP/no/log"', "log: log.file is 'TMP/no/log', which cannot be opened: there is no"),
        ('[log]\naudit_file = "TMP"', "log: log.audit_file is 'TMP', which cannot be opened"),
        (
            '[[users]]\nname = "a"\npassword_file = "TMP/missing"',
            "users: [[users]]: the password of user 'a'",
        ),
        ("[templates.t]\nx-max-length = -1", "templates: invalid arg 'x-max-length'"),
        ('[proxy]\ntrusted = ["0.0.0.0/0"]', "proxy: proxy.trusted has 0.0.0.0/0: nearly anybody"),
        ('[proxy]\ntrusted = ["10.0.0.0/8", "128.0.0.0/1"]', "proxy: proxy.trusted has 128.0.0.0/1"),
        ('[proxy]\ntrusted = ["::/0"]', "proxy: proxy.trusted has ::/0"),
    ],
)
def test_what_the_broker_would_end_with(
    settings: Path, capsys: pytest.CaptureFixture[str], more: str, said: str
) -> None:
    directory = settings.parent
    authority = Authority(directory)
    authority.issue("server")
    authority.issue("other")
    authority.issue("old", expired=True)
    settings.write_text(settings.read_text() + more.replace("TMP", str(directory)))
    code, told = doctor(settings, capsys)
    assert code == 1 and f"✗ {said.replace('TMP', str(directory))}" in told
    assert not (directory / "no").exists()
    goes_on = "expired" in said or "proxy" in said
    assert main(["config", "check", str(settings)]) == (0 if goes_on else 2)
    checked = capsys.readouterr().err
    assert goes_on or said.replace("TMP", str(directory)).partition(": ")[2] in checked


def test_files_that_are_well(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = settings.parent
    certificate = Authority(directory).issue("server")  # for a day
    tls = f'[tls]\ncertificate = "{certificate}"\namqp_port = 0\nhttp_port = 0\n'
    more = f'[log]\nfile = "{directory}/log"\n[proxy]\ntrusted = ["10.0.0.0/8", "::1"]\n'
    settings.write_text(settings.read_text() + tls + more)
    code, said = doctor(settings, capsys)
    assert code == 0 and f"! TLS: the certificate {certificate} is valid until 20" in said
    assert not (directory / "log").exists(), "a look leaves no file"


def test_settings_that_cannot_be(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings.write_text("no_such = 1")
    assert doctor(settings, capsys)[0] == 2


def test_the_units_for_systemd_name_what_there_is() -> None:
    service = (REPOSITORY / "contrib" / "embermq.service").read_text()
    assert "Type=notify" in service and "embermq serve" in service and "kill -HUP $MAINPID" in service
    sockets = (REPOSITORY / "contrib" / "embermq.socket").read_text()
    assert "FileDescriptorName=amqp" in sockets and "ListenStream=5672" in sockets
