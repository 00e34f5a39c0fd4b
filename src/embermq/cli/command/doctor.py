"""`embermq doctor`: checks of a set-up, which find problems before they do harm.

Looks at the settings, the machine and the data directory; at a broker that runs there only as a client would.
"""

from __future__ import annotations

import argparse
import base64
import importlib.metadata
import json
import os
import platform
import resource
import shutil
import socket
import stat
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from ipaddress import ip_network
from pathlib import Path

from embermq import __version__
from embermq.build import build_info
from embermq.cli.command.config import USAGE_ERROR, config_file, load_config
from embermq.config import Config, ConfigError
from embermq.config.toml_text import settings_lines

FILES_MIN = 10_000  # descriptors: one per connection, and some per queue on disk
DISK_FREE_BYTES_MIN = 1024**3
SYNCS = 20
SYNC_MS_MAX = 20.0
LEASE_AGE_S_MAX = 24 * 3600
RELEASED = 1_735_689_600  # 2025: a clock before that is wrong
CERTIFICATE_S_MIN = 14 * 86400
PROXY_BITS_MIN = {4: 8, 6: 16}  # a larger network than these is no network of proxies
GOOD, WARNING, WRONG = "good", "warning", "wrong"
MARKS = {GOOD: "✓", WARNING: "!", WRONG: "✗"}


@dataclass(frozen=True)
class Finding:
    state: str
    what: str
    told: str


Check = Callable[[Config], Iterator[Finding]]


def add_doctor(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    doctor = commands.add_parser(
        "doctor",
        help="look for what is wrong with a set-up",
        description="Look for what is wrong with a set-up before it hurts: versions, secrets in files, "
        "certificates, keys, logs, proxies, limits of the machine, disk, ports, guest's password, clock. "
        "Exit code 1 if anything is.",
    )
    doctor.add_argument("--config", metavar="FILE", type=Path, help="configuration file (TOML)")
    doctor.add_argument("--data-dir", metavar="DIR", help="where the broker keeps its data")
    doctor.add_argument("--json", action="store_true", help="print JSON, for scripts")
    doctor.set_defaults(run=run_doctor)


def run_doctor(options: argparse.Namespace) -> int:
    try:
        config = load_config(options)
    except ConfigError as error:
        print(f"embermq: {error}", file=sys.stderr)
        return USAGE_ERROR
    findings = list(secrets(config, config_file(options)))
    for check in CHECKS:
        findings += check(config)
    if options.json:
        print(json.dumps([asdict(finding) for finding in findings], indent=2))
    else:
        print("\n".join(f"{MARKS[each.state]} {each.what}: {each.told}" for each in findings))
    return 1 if any(finding.state == WRONG for finding in findings) else 0


def versions(config: Config) -> Iterator[Finding]:
    build = build_info()
    yield Finding(GOOD, "version", f"EmberMQ {__version__} on Python {platform.python_version()}")
    if build.interpreted:
        yield Finding(
            WARNING, "build", "interpreted, several times slower than compiled; see docs/development.md"
        )
    try:
        yield Finding(GOOD, "loop", f"uvloop {importlib.metadata.version('uvloop')}")
    except importlib.metadata.PackageNotFoundError:
        yield Finding(WARNING, "loop", "asyncio's own; uvloop is several times faster")


def secrets(config: Config, file: Path | None) -> Iterator[Finding]:
    if file is None:
        return
    holds = bool(config.tls.key_password) or any(user.password for user in config.users)
    if holds and stat.S_IMODE(file.stat().st_mode) & 0o077:
        yield Finding(WRONG, "settings", f"{file} holds passwords and others may read it: chmod 600 {file}")
    else:
        count = sum(1 for line in settings_lines(config) if not line.startswith("#"))
        yield Finding(GOOD, "settings", f"{file}, {count} at the top differ from the defaults")


def limits(config: Config) -> Iterator[Finding]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    state = GOOD if soft >= FILES_MIN else WARNING
    told = f"{soft} (at most {hard})"
    yield Finding(state, "open files", told if state == GOOD else f"{told}; {FILES_MIN} are good to have")


def files(config: Config) -> Iterator[Finding]:
    """Certificates, keys, passwords and logs: what the settings name must be there and fit."""
    from embermq.app.file_checks import certificate, problems

    found = [Finding(WRONG, what, problem) for what, problem in problems(config)]
    yield from found
    if not config.tls.certificate or any(finding.what == "TLS" for finding in found):
        return
    problem, end, left_s = certificate(config, time.time())
    if problem:
        yield Finding(WRONG, "TLS", f"{problem}: clients will refuse it")
    else:
        state = GOOD if left_s > CERTIFICATE_S_MIN else WARNING
        yield Finding(state, "TLS", f"the certificate {config.tls.certificate} is valid until {end}")


def proxies(config: Config) -> Iterator[Finding]:
    """A proxy is believed whatever it says, also that a client is on this machine."""
    for text in config.proxy.trusted:
        network = ip_network(text, strict=False)
        if network.prefixlen < PROXY_BITS_MIN[network.version]:
            told = f"proxy.trusted has {text}: nearly anybody may claim to come from any address"
            yield Finding(WRONG, "proxy", told)


def disk(config: Config) -> Iterator[Finding]:
    directory = nearest(config.data_dir)
    if not os.access(directory, os.W_OK):
        yield Finding(WRONG, "data", f"{directory} cannot be written to")
        return
    free = shutil.disk_usage(directory).free
    state = GOOD if free >= DISK_FREE_BYTES_MIN else WARNING
    yield Finding(state, "disk", f"{free // 1024**2:,} MiB are free at {directory}")
    if config.data_dir.exists() and stat.S_IMODE(config.data_dir.stat().st_mode) & 0o007:
        yield Finding(WARNING, "data", f"others may read {config.data_dir}: chmod o= {config.data_dir}")
    yield sync_speed(directory)


def nearest(directory: Path) -> Path:
    """The directory, or that of its parents which exists."""
    directory = directory.absolute()
    while not directory.exists():
        directory = directory.parent
    return directory


def sync_speed(directory: Path) -> Finding:
    """What a confirm of one message costs at the least."""
    file = directory / f".embermq-doctor-{os.getpid()}"
    times = []
    try:
        with file.open("wb", buffering=0) as stream:
            for _ in range(SYNCS):
                began = time.perf_counter()
                stream.write(bytes(4096))
                os.fdatasync(stream.fileno())
                times.append(time.perf_counter() - began)
    finally:
        file.unlink(missing_ok=True)
    median_ms = sorted(times)[SYNCS // 2] * 1000
    state = GOOD if median_ms <= SYNC_MS_MAX else WARNING
    return Finding(state, "sync", f"{median_ms:.1f} ms until 4 KiB are on disk")


def ports(config: Config) -> Iterator[Finding]:
    wanted = {} if config.tls.only else {"AMQP": config.amqp_port, "HTTP": config.http_port}
    if config.tls.certificate:
        wanted |= {"AMQP over TLS": config.tls.amqp_port, "HTTPS": config.tls.http_port}
    for name, port in wanted.items():
        if port and is_taken(config.bind, port):
            yield Finding(
                WARNING, "port", f"{port} for {name} is taken, by a broker that runs or somebody else"
            )
        else:
            yield Finding(GOOD, "port", f"{port or 'any'} for {name} is free")
    if config.bind not in ("127.0.0.1", "::1", "localhost") and not config.tls.certificate:
        yield Finding(WARNING, "TLS", f"none, and {config.bind} may be reached from elsewhere")


def is_taken(host: str, port: int) -> bool:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return True
    return False


def default_password(config: Config) -> Iterator[Finding]:
    """Can guest log in with password guest at a broker that runs here?"""
    import http.client  # half of the standard library comes with it

    if config.tls.only or not config.http_port or not is_taken(config.bind, config.http_port):
        return
    connection = http.client.HTTPConnection(host_of(config), config.http_port, timeout=5)
    try:
        login = base64.b64encode(b"guest:guest").decode()
        connection.request("GET", "/api/whoami", headers={"authorization": f"Basic {login}"})
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return
    finally:
        connection.close()
    if status == http.client.OK:
        yield Finding(WARNING, "password", "guest has the password guest (from this machine only)")
    else:
        yield Finding(GOOD, "password", "guest does not get in with the password guest")


def leases(config: Config) -> Iterator[Finding]:
    """Leases that have been open for too long, if a broker runs here."""
    import http.client

    if config.tls.only or not config.http_port or not is_taken(config.bind, config.http_port):
        return
    connection = http.client.HTTPConnection(host_of(config), config.http_port, timeout=5)
    try:
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode("utf-8", "replace")
    except (OSError, http.client.HTTPException):
        return
    finally:
        connection.close()
    found = dict(line.rsplit(" ", 1) for line in text.splitlines() if line.startswith("embermq_lease"))
    age_s = float(found.get("embermq_lease_age_seconds", 0))
    if age_s > LEASE_AGE_S_MAX:
        told = f"the oldest has been open for {age_s / 86400:.0f} days: embermq lease list, release"
        yield Finding(WARNING, "leases", told)


def host_of(config: Config) -> str:
    return "127.0.0.1" if config.bind in ("0.0.0.0", "::", "") else config.bind


def clock(config: Config) -> Iterator[Finding]:
    now = time.time()
    if now < RELEASED:
        yield Finding(WRONG, "clock", f"{time.ctime(now)} is long ago")
        return
    newest = max((file.stat().st_mtime for file in config.data_dir.glob("*")), default=0.0)
    if newest > now + 60:
        yield Finding(WRONG, "clock", "the data directory has files from the future: the clock went back")
    else:
        yield Finding(GOOD, "clock", time.strftime("%Y-%m-%d %H:%M:%S %Z", time.localtime(now)))


CHECKS: tuple[Check, ...] = (
    versions,
    limits,
    files,
    proxies,
    disk,
    ports,
    default_password,
    leases,
    clock,
)
