"""Settings: a TOML file, the environment, flags; each may override the one before.

    embermq.toml          bind = "127.0.0.1"
    environment           EMBERMQ_BIND=0.0.0.0
    command line          --bind 0.0.0.0

Anything unknown or of the wrong kind is refused with a sentence that says where and why.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path

ENVIRONMENT_PREFIX = "EMBERMQ_"
# Variables of ours that are not settings of the broker.
OTHER_VARIABLES = {
    "EMBERMQ_COMPILE",
    "EMBERMQ_CFLAGS",
    "EMBERMQ_EXPECT",
    "EMBERMQ_TEST_TARGET",
    "EMBERMQ_CONFIG",
}
PORT_MAX = 65535
FRAME_MAX_MIN, FRAME_MAX_MAX = 4096, 131072
BODY_BYTES_MAX = 512 * 1024 * 1024


class ConfigError(Exception):
    """A setting that cannot be; the text says which, where and what was expected."""


@dataclass(frozen=True)
class Config:
    bind: str = "127.0.0.1"
    amqp_port: int = 5672
    http_port: int = 15672
    data_dir: Path = Path("data")
    frame_max: int = FRAME_MAX_MAX
    channel_max: int = 2047
    heartbeat: int = 60
    max_message_size: int = 128 * 1024 * 1024
    sync: str = "always"
    memory_high_watermark: float = 0.4
    disk_free_limit: int = 0
    log_level: str = "info"

    def __post_init__(self) -> None:
        for name in ("amqp_port", "http_port"):
            require(name, getattr(self, name), 0, PORT_MAX)
        require("frame_max", self.frame_max, FRAME_MAX_MIN, FRAME_MAX_MAX)
        require("channel_max", self.channel_max, 1, 65535)
        require("heartbeat", self.heartbeat, 0, 65535)
        require("max_message_size", self.max_message_size, 1, BODY_BYTES_MAX)
        require("disk_free_limit", self.disk_free_limit, 0, 2**63)
        if not 0.0 < self.memory_high_watermark <= 1.0:
            raise ConfigError(
                f"memory_high_watermark is {self.memory_high_watermark}; expected a share of the memory "
                "above 0, up to 1"
            )
        if self.sync not in SYNC_MODES:
            raise ConfigError(f"sync is {self.sync!r}; expected one of {', '.join(SYNC_MODES)}")
        if self.log_level not in LOG_LEVELS:
            raise ConfigError(f"log_level is {self.log_level!r}; expected one of {', '.join(LOG_LEVELS)}")


SYNC_MODES = ("always", "os")
LOG_LEVELS = ("debug", "info", "warning", "error")
NAMES = tuple(field.name for field in fields(Config))


def require(name: str, value: int, minimum: int, maximum: int) -> None:
    if not minimum <= value <= maximum:
        raise ConfigError(f"{name} is {value}; expected {minimum} to {maximum}")


def load(
    file: Path | None = None,
    environment: Mapping[str, str] | None = None,
    flags: Mapping[str, object] | None = None,
) -> Config:
    config = Config()
    if file is not None:
        config = merged(config, read_file(file), str(file))
    config = merged(config, from_environment(environment or {}), "the environment")
    return merged(
        config,
        {name: value for name, value in (flags or {}).items() if value is not None},
        "the command line",
    )


def read_file(file: Path) -> dict[str, object]:
    try:
        with file.open("rb") as stream:
            return tomllib.load(stream)
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: not TOML: {error}") from error


def from_environment(environment: Mapping[str, str]) -> dict[str, object]:
    found: dict[str, object] = {}
    for variable, value in environment.items():
        if variable.startswith(ENVIRONMENT_PREFIX) and variable not in OTHER_VARIABLES:
            found[variable.removeprefix(ENVIRONMENT_PREFIX).lower()] = value
    return found


def merged(config: Config, settings: Mapping[str, object], origin: str) -> Config:
    changes: dict[str, object] = {}
    for name, value in settings.items():
        if name not in NAMES:
            raise ConfigError(f"{origin}: unknown setting {name!r}; known are {', '.join(NAMES)}")
        changes[name] = converted(name, value, type(getattr(config, name)), origin)
    try:
        return replace(config, **changes)  # type: ignore[arg-type]
    except ConfigError as error:
        raise ConfigError(f"{origin}: {error}") from error


def converted(name: str, value: object, kind: type, origin: str) -> object:
    if issubclass(kind, Path) and isinstance(value, str | Path):
        return Path(value)
    if kind is float and isinstance(value, int | str) and not isinstance(value, bool):
        try:
            return float(value)
        except ValueError:
            raise ConfigError(f"{origin}: {name} is {value!r}; expected a number") from None
    if kind is int and isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            raise ConfigError(f"{origin}: {name} is {value!r}; expected a whole number") from None
    if isinstance(value, kind) and not (kind is int and isinstance(value, bool)):
        return value
    raise ConfigError(
        f"{origin}: {name} is {value!r}; expected {'a whole number' if kind is int else 'text'}"
    )
