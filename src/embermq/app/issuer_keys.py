"""The keys of whoever issues tokens, where they publish them: fetched at start, now and then, and when a
token names a key that is not known, for that is how a new one shows. Not more often than the settings say,
though: tokens that name keys which nobody has cost a fetch now and then, and no more.

Fetching is a thread's work, and keys that we have stay until others have come.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from embermq.broker.tokens import TokenProblem, Tokens, keys_in
from embermq.config.settings import OAuth

log = logging.getLogger("embermq.tokens")

JWKS_BYTES_MAX = 256 * 1024


class IssuerKeys:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.settings = OAuth()
        self.tokens: Tokens | None = None
        self.thread: ThreadPoolExecutor | None = None
        self.under_way = False
        self.fetched_at = -math.inf
        self.waiting: list[Callable[[], None]] = []
        self.timer: asyncio.TimerHandle | None = None

    def serve(self, tokens: Tokens | None, settings: OAuth) -> None:
        """At start, and whenever the settings are read anew."""
        before, self.tokens = self.tokens, tokens
        same = settings.jwks_url == self.settings.jwks_url
        self.settings = settings
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        if tokens is None or not settings.jwks_url:
            return
        if same and before is not None:
            tokens.take(before.published)
        tokens.renew = self.renew
        self.fetched_at = -math.inf
        self.refresh()

    def refresh(self) -> None:
        self.renew(lambda: None)
        self.timer = self.loop.call_later(self.settings.jwks_refresh_s, self.refresh)

    def renew(self, done: Callable[[], None]) -> None:
        """Call when the keys are as new as they may be: at once, where it is too early to ask again."""
        if self.under_way:
            self.waiting.append(done)
        elif self.loop.time() - self.fetched_at < self.settings.jwks_interval_s:
            done()
        else:
            self.waiting.append(done)
            self.begin()

    def begin(self) -> None:
        from embermq.net.fetch import fetch  # brings an HTTP client, which a broker seldom needs

        if self.thread is None:
            self.thread = ThreadPoolExecutor(1, thread_name_prefix="embermq-keys")
        self.under_way = True
        self.fetched_at = self.loop.time()
        settings = self.settings
        work = self.thread.submit(
            fetch, settings.jwks_url, JWKS_BYTES_MAX, settings.jwks_timeout_s, settings.jwks_authorities
        )
        work.add_done_callback(lambda work: self.back(settings.jwks_url, work))

    def back(self, url: str, work: Future[bytes]) -> None:
        """On the thread: bring what came to the loop."""
        if not work.cancelled() and not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self.came, url, work)

    def came(self, url: str, work: Future[bytes]) -> None:
        self.under_way = False
        if url == self.settings.jwks_url and self.tokens is not None:
            self.take(self.tokens, work)
        waiting, self.waiting = self.waiting, []
        if url != self.settings.jwks_url and self.settings.jwks_url and waiting:
            self.waiting = waiting  # the settings have changed meanwhile: these wait for the other address
            self.begin()
            return
        for done in waiting:
            done()

    def take(self, tokens: Tokens, work: Future[bytes]) -> None:
        from embermq.net.fetch import FetchError

        try:
            keys = keys_in(work.result())
        except (FetchError, TokenProblem) as problem:
            log.error("no keys for tokens, those that are known stay: %s", problem)
            return
        if set(keys) != set(tokens.published):
            log.info("keys for tokens: %s", ", ".join(repr(name) for name in sorted(keys)))
        tokens.take(keys)

    def close(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
        if self.thread is not None:
            self.thread.shutdown(wait=False, cancel_futures=True)
