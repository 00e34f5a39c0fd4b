"""Plug-ins: found by the configuration and by entry points, checked, and made known to the broker."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Iterable, Iterator
from importlib.metadata import entry_points
from types import ModuleType

from embermq.broker.exchange.exchange import MATCHERS, PLUGIN_TYPES
from embermq.broker.exchange.plugin_type import TypeState
from embermq.broker.service import Services
from embermq.config.rule import ConfigError
from embermq.plugin import API_VERSION, ExchangeType, Service

log = logging.getLogger("embermq.plugin")

GROUP = "embermq.plugins"
TYPE_PREFIX, RESERVED_PREFIX = "x-", "amq."


def modules_of(names: Iterable[str]) -> Iterator[ModuleType]:
    """Those that the configuration names must be there; an installed one that fails is a warning."""
    for name in names:
        try:
            yield importlib.import_module(name)
        except Exception as error:
            raise ConfigError(f"plugins.modules: {name!r} cannot be imported: {error}") from error
    for entry in entry_points(group=GROUP):
        try:
            loaded = entry.load()
        except Exception:
            log.exception("plug-in %s cannot be loaded", entry.name)
            continue
        yield loaded if isinstance(loaded, ModuleType) else importlib.import_module(loaded.__module__)


def load_plugins(names: Iterable[str], services: Services) -> None:
    for module in modules_of(names):
        for thing in vars(module).values():
            if isinstance(thing, Service):
                add_service(services, thing, module)
            elif isinstance(thing, type) and issubclass(thing, ExchangeType) and thing is not ExchangeType:
                add_exchange_type(thing, module)


def disable_types(names: Iterable[str]) -> None:
    """Switch these off, and all others on."""
    for name, state in PLUGIN_TYPES.items():
        state.enabled = state.kind is not None and name not in names


def add_service(services: Services, service: Service, module: ModuleType) -> None:
    if not service.name or service.name.startswith(RESERVED_PREFIX):
        raise ConfigError(f"plug-in {module.__name__}: {service.name!r} is no name for a service")
    services.known[service.name] = service


def add_exchange_type(kind: type[ExchangeType], module: ModuleType) -> None:
    name = kind.name
    if not str(name).startswith(TYPE_PREFIX):
        raise ConfigError(f"plug-in {module.__name__}: the type {name!r} does not begin with {TYPE_PREFIX!r}")
    if kind.api_version != API_VERSION:
        raise ConfigError(
            f"plug-in {module.__name__}: {name} is for version {kind.api_version} of the plug-in API, "
            f"this is version {API_VERSION}"
        )
    if name in MATCHERS and name not in PLUGIN_TYPES:
        raise ConfigError(f"plug-in {module.__name__}: there is an exchange type {name!r} already")
    state = PLUGIN_TYPES[name] = TypeState(name, kind)
    MATCHERS[name] = state.make
