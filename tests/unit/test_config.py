"""Settings: which one wins, and sentences for those that cannot be."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

from embermq.config import NAMES, OTHER_VARIABLES, Config, ConfigError, load
from embermq.config.toml_text import SAMPLES, example, shown


def written(directory: Path, text: str | bytes) -> Path:
    file = directory / "embermq.toml"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return file


def sentence(**arguments: object) -> str:
    with pytest.raises(ConfigError) as refusal:
        load(**arguments)  # type: ignore[arg-type]
    return str(refusal.value)


def test_without_anything_the_defaults_stand() -> None:
    assert load() == Config() == load(None, {"PATH": "/bin"}, dict.fromkeys(NAMES))


def test_flags_win_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    file = written(tmp_path, 'bind = "192.0.2.1"\namqp_port = 1\nheartbeat = 1\ndata_dir = "from/file"\n')
    environment = {"EMBERMQ_AMQP_PORT": "2", "EMBERMQ_HEARTBEAT": "2"}
    config = load(file, environment, {"heartbeat": "3", "bind": None})
    assert (config.bind, config.amqp_port, config.heartbeat) == ("192.0.2.1", 2, 3)
    assert config.data_dir == Path("from/file")
    assert load(file, environment | {"EMBERMQ_DATA_DIR": "/env"}).data_dir == Path("/env")


def test_variables_of_other_parts_of_the_house_are_no_settings() -> None:
    assert load(None, dict.fromkeys(OTHER_VARIABLES, "whatever")) == Config()


def test_a_config_does_not_change() -> None:
    with pytest.raises(FrozenInstanceError):
        Config().bind = "elsewhere"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("no_such = 1", "unknown setting 'no_such'; known are bind, amqp_port"),
        ('amqp_port = "many"', "amqp_port is 'many'; expected a whole number"),
        ("amqp_port = 1.5", "amqp_port is 1.5; expected a whole number"),
        ("amqp_port = true", "amqp_port is True; expected a whole number"),
        ("amqp_port = 65536", "amqp_port is 65536; expected 0 to 65535"),
        ("http_port = -1", "http_port is -1; expected 0 to 65535"),
        ("frame_max = 4095", "frame_max is 4095; expected 4096 to 131072"),
        ("channel_max = 0", "channel_max is 0; expected 1 to 65535"),
        ("heartbeat = 65536", "heartbeat is 65536; expected 0 to 65535"),
        ("max_message_size = 0", "max_message_size is 0; expected 1 to 536870912"),
        ("bind = 5", "bind is 5; expected text"),
        ("data_dir = 5", "data_dir is 5; expected text"),
        ('sync = "never"', "sync is 'never'; expected one of always, os"),
        ('log_level = "loud"', "log_level is 'loud'; expected one of debug, info, warning, error"),
        ("[section]\nbind = 1", "unknown setting 'section'"),
        ("bind = ", "not TOML: "),
        (b'bind = "\xff"', "not TOML: "),
    ],
)
def test_files_that_cannot_be(tmp_path: Path, text: str | bytes, said: str) -> None:
    file = written(tmp_path, text)
    line = "" if said.startswith("not TOML") else ":1"
    assert sentence(file=file).startswith(f"{file}{line}: {said}")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    missing = tmp_path / "missing.toml"
    assert sentence(file=missing) == f"{missing}: cannot be read: No such file or directory"
    assert sentence(file=tmp_path) == f"{tmp_path}: cannot be read: Is a directory"


def test_the_environment_and_the_command_line_are_named() -> None:
    assert sentence(environment={"EMBERMQ_HEARTBEAT": "x"}) == (
        "the environment: heartbeat is 'x'; expected a whole number"
    )
    assert sentence(environment={"EMBERMQ_NO_SUCH": "x"}).startswith(
        "the environment: unknown setting 'no_such'; known are "
    )
    assert sentence(flags={"amqp_port": "99999"}) == (
        "the command line: amqp_port is 99999; expected 0 to 65535"
    )


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("\nheartbeet = 1", 2, "unknown setting 'heartbeet'; did you mean 'heartbeat'?"),
        ("[tsl]", 1, "unknown setting 'tsl'; did you mean 'tls'?"),
        (
            "[tls]\n# why\ncertficate = 'x'",
            3,
            "unknown setting 'tls.certficate'; did you mean 'certificate'?",
        ),
        ("[limits]\nconnections = -1", 2, "limits.connections is -1; expected 0 or more"),
        ("[limits]\nhandshake_s = 'long'", 2, "limits.handshake_s is 'long'; expected a number"),
        ("tls = 1", 1, "tls is 1; expected a table, [tls]"),
        ("[tls]\nonly = true", 1, "tls.certificate is missing; expected a file, because TLS is asked for"),
        ("[tls]\nonly = 'perhaps'", 2, "tls.only is 'perhaps'; expected true or false"),
        ("[tls]\nversion = '1.0'", 2, "tls.version is '1.0'; expected one of 1.2, 1.3"),
        ("[tls]\nkey_password = 5", 2, "tls.key_password is hidden; expected text"),
        (
            "[auth]\nmechanisms = ['PLAIN', 'NTLM']",
            2,
            "auth.mechanisms is ('PLAIN', 'NTLM'); expected one of",
        ),
        ("[auth]\nmechanisms = [1]", 2, "auth.mechanisms is [1]; expected a list of texts"),
        ("[proxy]\ntrusted = ['x']", 1, "proxy.trusted is 'x'; expected an address or a network"),
        ("[users]\nname = 'a'", 1, "users is {'name': 'a'}; expected tables, each under [[users]]"),
        ("[[users]]\nname = 'a'\n\n[[users]]\ntags = []", 4, "users[1].name is missing; every one of"),
        ("[[users]]\nname = ''", 2, "users[0].name is ''; expected something"),
        ("[[users]]\nname = 'a'\npasword = 'secret'", 3, "unknown setting 'users[0].pasword'; did you mean"),
        ("[[users]]\nname='a'\npassword='b'\npassword_file='c'", 1, "user 'a' has more than one of password"),
        ("[[queues]]\nname = 'q'\ntemplate = 'jobs'", 3, "queues[0].template is 'jobs'; expected one of"),
        ("[[queues]]\nname = 'q'\narguments = 5", 3, "queues[0].arguments is 5; expected a table"),
        ("[templates]\njobs = 1", 2, "templates.jobs is 1; expected a table of arguments"),
    ],
)
def test_the_line_is_named(tmp_path: Path, text: str, line: int, said: str) -> None:
    file = written(tmp_path, text)
    assert sentence(file=file).startswith(f"{file}:{line}: {said}")


def test_sections_can_be_given_in_the_environment(tmp_path: Path) -> None:
    file = written(tmp_path, "[limits]\nconnections = 5\nhandshake_s = 3\n[auth]\nmechanisms = ['PLAIN']\n")
    config = load(
        file,
        {
            "EMBERMQ_LIMITS_CONNECTIONS": "7",
            "EMBERMQ_AUTH_MECHANISMS": "PLAIN, EXTERNAL",
            "EMBERMQ_LOG_LEVEL": "debug",
        },
    )
    assert (config.limits.connections, config.limits.handshake_s) == (7, 3.0)
    assert config.auth.mechanisms == ("PLAIN", "EXTERNAL")
    assert config.log_level == "debug"
    assert sentence(environment={"EMBERMQ_TLS_CERTFICATE": "x"}).startswith(
        "the environment: unknown setting 'tls.certficate'; did you mean 'certificate'?"
    )


def test_what_is_shown_is_a_file_that_says_the_same(tmp_path: Path) -> None:
    text = """
heartbeat = 5
[tls]
certificate = "a.pem"
key_password = "swordfish"
[[users]]
name = "anna"
password = "swordfish"
tags = ["monitoring"]
[[queues]]
name = "q"
template = "jobs"
arguments = { x-max-length = 10, "odd key" = [1, "two"] }
[templates.jobs]
x-message-ttl = 5
"""
    config = load(written(tmp_path, text))
    printed = shown(config)
    assert "swordfish" not in printed and '"********"' in printed
    again = load(written(tmp_path, printed.replace("********", "swordfish")))
    assert again == config


def test_the_example_is_a_file_of_defaults_and_its_samples_are_good(tmp_path: Path) -> None:
    assert load(written(tmp_path, example())) == Config()
    samples = "\n".join(line.removeprefix("# ").removeprefix("#") for line in SAMPLES.splitlines()[1:])
    config = load(written(tmp_path, samples))
    assert config.queues[0].template == "jobs" and config.permissions[0].write == "^orders\\."


@pytest.mark.parametrize(
    "setting",
    [
        'data_dir = "a\\u0000b"',
        'log.file = "\\u0000"',
        'tls.certificate = "\\u0000"',
        'proxy.trusted = ["\\u0000"]',
        'users = [{name = "u", password_file = "\\u0000"}]',
    ],
)
def test_no_setting_has_a_nul_character(tmp_path: Path, setting: str) -> None:
    """No file can be called so; what would open it raises something else than what is wrong."""
    assert "expected text without NUL characters" in sentence(file=written(tmp_path, setting))
