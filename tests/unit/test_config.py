"""Settings: which one wins, and sentences for those that cannot be."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

from embermq.config import NAMES, OTHER_VARIABLES, Config, ConfigError, load


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
    assert sentence(file=file).startswith(f"{file}: {said}")


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
