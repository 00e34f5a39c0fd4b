"""Reload (SIGHUP): settings that may change at run time are applied, the others are named in the log."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from embermq.app import log_setup
from embermq.app.auth_setup import apply_settings, tokens_of
from embermq.app.limits import limits_of, room_of, templates_of
from embermq.app.listeners import listener_options
from embermq.app.plugins import disable_types
from embermq.app.predeclare import declare
from embermq.config import SECTIONS, Config
from embermq.config.rule import rule_of, settings_in

if TYPE_CHECKING:
    from embermq.app.app import App

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


def combined(old: Config, new: Config) -> Config:
    """What holds after a reload: the new settings, but the old ones where they need a restart."""
    sections = {name: merged(getattr(old, name), getattr(new, name)) for name in SECTIONS}
    if turns_tls(old, new):
        sections["tls"] = old.tls
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
    return config


def turns_tls(old: Config, new: Config) -> bool:
    """On or off: ports open and close when the broker starts, and only then."""
    return bool(old.tls.certificate) != bool(new.tls.certificate)


def changes(old: Config, new: Config) -> tuple[list[str], list[str]]:
    """The names of settings that a reload changes, and of those that wait for a restart."""
    found = list(differences(old, new))
    for name in SECTIONS:
        for setting, live in differences(getattr(old, name), getattr(new, name), f"{name}."):
            found.append((setting, live and not (name == "tls" and turns_tls(old, new))))
    return [name for name, live in found if live], [name for name, live in found if not live]


async def reload(app: App, new: Config) -> None:
    """All of it or, with a ConfigError or TLSError, nothing: whatever can fail comes first."""
    changed, waiting = changes(app.config, new)
    config = combined(app.config, new)
    tokens = tokens_of(config.oauth)
    listener_options(config)
    if turns_tls(app.config, new):
        listener_options(new)  # what the next start would refuse is refused now
    prepared = log_setup.Logs(config)
    templates = app.broker.defaults.templates
    configured, templates.configured = templates.configured, templates_of(config).configured
    try:
        declare(app.broker, config)
        await app.listeners.renew(config)
    except BaseException:
        templates.configured = configured
        prepared.close()
        raise
    prepared.use()
    app.config = config
    apply_settings(app.broker.authenticator, app.issuer_keys, config, tokens)
    disable_types(config.plugins.disabled)
    app.limits = limits_of(config)
    app.broker.defaults.consumer_timeout_ms = config.consumer_timeout
    app.server.handshake_s = config.limits.handshake_s
    app.server.admission.set_room(room_of(config))
    app.server.certificate_kind = config.auth.certificate_name
    if app.resource_monitor is not None:
        app.resource_monitor.set_limits(config.memory_high_watermark, config.disk_free_limit)
        app.resource_monitor.check()
    app.warn_of_certificate()
    log.info("settings read anew; changed: %s", ", ".join(changed) or "nothing")
    if waiting:
        log.warning("a restart is needed for: %s", ", ".join(waiting))
