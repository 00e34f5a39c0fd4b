"""Authentication from the settings: the thread for slow hashes, token keys, the login throttle."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from embermq.app.jwks import IssuerKeys
from embermq.broker.security.authenticator import Authenticator
from embermq.broker.security.token import TokenProblem, Tokens, load_keys
from embermq.config import Config, ConfigError
from embermq.config.settings import OAuth


class Aside:
    """One thread for what is slow on purpose: guessing stays slow, and the message path does not wait."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.thread = ThreadPoolExecutor(1, thread_name_prefix="embermq-password")

    def run(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        def finished(future: Future[Any]) -> None:
            if not future.cancelled() and not self.loop.is_closed():
                self.loop.call_soon_threadsafe(done, future.result())

        self.thread.submit(work).add_done_callback(finished)

    def close(self) -> None:
        self.thread.shutdown(wait=False, cancel_futures=True)


def apply_settings(
    authenticator: Authenticator, issuer_keys: IssuerKeys, config: Config, tokens: Tokens | None
) -> None:
    """At start, and whenever the settings are read anew."""
    authenticator.tokens = tokens
    issuer_keys.serve(tokens, config)
    authenticator.cache_s = config.auth.cache_s
    authenticator.login_throttle.free = config.auth.failures_free


def tokens_of(oauth: OAuth) -> Tokens | None:
    """ConfigError for keys that are none."""
    if not oauth.keys and not oauth.jwks_url:
        return None
    try:
        keys = load_keys(oauth.keys)
    except TokenProblem as problem:
        raise ConfigError(f"oauth.keys: {problem}") from None
    return Tokens(
        keys,
        oauth.audience,
        algorithms=oauth.algorithms,
        issuer=oauth.issuer,
        prefix=oauth.scope_prefix,
        username_claims=oauth.username_claims,
        leeway_s=oauth.leeway_s,
    )
