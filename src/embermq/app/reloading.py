"""The settings, read anew: what may change changes at once, and what may not is said."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from embermq.app import logs
from embermq.app.doors import apply_settings, limits_of, room_of
from embermq.app.queue_defaults import templates_of
from embermq.app.wiring import declare
from embermq.config import SECTIONS, Config, ConfigError
from embermq.config.rule import rule_of, settings_in
from embermq.net.tls import TLSError

if TYPE_CHECKING:
    from embermq.app import App

log = logging.getLogger("embermq")


def differences(old: object, new: object, prefix: str = "") -> Iterator[tuple[str, bool]]:
    """The settings that differ, and whether that can be applied."""
    for name, field in settings_in(type(old)).items():
        if getattr(old, name) != getattr(new, name):
            rule = rule_of(field)
            yield prefix + name, rule is not None and rule.live


def merged(old: Any, new: Any) -> Any:
    """The old settings with those of the new that may change."""
    live = {name: getattr(new, name) for name, field in settings_in(type(old)).items() if is_live(field)}
    return replace(old, **live)


def is_live(field: Any) -> bool:
    rule = rule_of(field)
    return rule is not None and rule.live


async def reload(app: App, new: Config) -> None:
    old = app.config
    found = list(differences(old, new))
    sections = {}
    for name in SECTIONS:
        found += differences(getattr(old, name), getattr(new, name), f"{name}.")
        sections[name] = merged(getattr(old, name), getattr(new, name))
    config: Config = replace(
        merged(old, new),
        **sections,
        vhosts=new.vhosts,
        users=new.users,
        permissions=new.permissions,
        topic_permissions=new.topic_permissions,
        exchanges=new.exchanges,
        queues=new.queues,
        bindings=new.bindings,
        templates=new.templates,
    )
    try:
        apply_settings(app.broker.authenticator, app.issuer_keys, config)
        await app.listeners.renew(config)
        app.broker.defaults.templates.configured = templates_of(config).configured
        declare(app.broker, config)
    except (TLSError, ConfigError) as error:
        log.error("the settings were not read anew: %s", error)
        return
    app.config = config
    app.limits = limits_of(config)
    app.broker.defaults.consumer_timeout_ms = config.consumer_timeout
    app.server.handshake_s = config.limits.handshake_s
    app.server.lobby.set_room(room_of(config))
    app.server.certificate_kind = config.auth.certificate_name
    if app.watch is not None:
        app.watch.set_limits(config.memory_high_watermark, config.disk_free_limit)
        app.watch.look()
    logs.set_up(config)
    changed = [name for name, live in found if live]
    log.info("settings read anew; changed: %s", ", ".join(changed) or "nothing")
    waiting = [name for name, live in found if not live]
    if waiting:
        log.warning("a restart is needed for: %s", ", ".join(waiting))
