"""The files that the settings name: what would keep a broker from starting with them.

Read as the broker reads them, for `embermq config check` and `embermq doctor`; nothing is made or changed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from embermq.app.auth_setup import tokens_of
from embermq.app.limits import templates_of
from embermq.app.listeners import listener_options
from embermq.app.log_setup import OPEN_FLAGS
from embermq.app.predeclare import first_user, new_user
from embermq.config import Config, ConfigError
from embermq.net.tls import TLSError, authorities_problem, certificate_end, date, date_problem


def problems(config: Config) -> Iterator[tuple[str, str]]:
    """What it is about, and the sentence with which `embermq serve` would end."""
    attempts: tuple[tuple[str, Callable[[], object]], ...] = (
        ("TLS", lambda: listener_options(config)),
        ("tokens", lambda: tokens_of(config.oauth)),
        ("templates", lambda: templates_of(config)),
        ("users", lambda: [first_user(config.default), *map(new_user, config.users)]),
    )
    for what, attempt in attempts:
        try:
            attempt()
        except (ConfigError, TLSError) as error:
            yield what, str(error)
    for name, file in (("log.file", config.log.file), ("log.audit_file", config.log.audit_file)):
        problem = unwritable(Path(file)) if file else ""
        if problem:
            yield "log", f"{name} is {file!r}, which cannot be opened: {problem}"
    if config.oauth.jwks_authorities:
        problem = authorities_problem(config.oauth.jwks_authorities)
        if problem:
            yield "tokens", f"oauth.jwks_authorities is {config.oauth.jwks_authorities!r}: {problem}"


def certificate(config: Config, now: float) -> tuple[str, str, float]:
    """What is wrong with its dates (empty: nothing), when it ends, and in how many seconds."""
    file = config.tls.certificate
    end = certificate_end(file)
    return date_problem(file, now), date(end), end - now


def unwritable(file: Path) -> str:
    """Why lines cannot be added to a file; empty where they can. One that is missing is not made."""
    try:
        os.close(os.open(file, OPEN_FLAGS & ~os.O_CREAT))
    except FileNotFoundError:
        parent = file.absolute().parent
        if not parent.is_dir():
            return f"there is no directory {parent}"
        return "" if os.access(parent, os.W_OK | os.X_OK) else f"{parent} cannot be written to"
    except OSError as error:
        return error.strerror or str(error)
    return ""
