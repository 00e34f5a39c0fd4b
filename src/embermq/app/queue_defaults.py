"""From the settings to what holds for queues that do not say it themselves."""

from __future__ import annotations

from embermq.broker.queue.defaults import Defaults
from embermq.broker.queue.template import Templates
from embermq.config import Config, ConfigError
from embermq.errors import PreconditionFailed


def defaults_of(config: Config) -> Defaults:
    return Defaults(config.default_delivery_limit, config.consumer_timeout, templates_of(config))


def templates_of(config: Config) -> Templates:
    try:
        return Templates(config.templates)
    except PreconditionFailed as error:
        raise ConfigError(error.detail, ("templates",)) from None
