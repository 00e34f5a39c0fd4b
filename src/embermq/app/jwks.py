"""The JSON web key set (JWKS) of the issuer of tokens.

Fetched at start, at intervals, and when a token names a key that is not known, for that is how a new one
shows; never more often than the settings say.

A thread fetches; keys that are known stay until others have come. Logins that need a fetch wait for it, not
longer than any login may take. At most half of the clients that may log in at a time wait so, of all and of
each address: the other half is for logins that need no fetch. One too many is checked
with the keys there are.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import math
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

from embermq.broker.security.token import TokenProblem, Tokens, keys_in
from embermq.config import Config
from embermq.config.settings import Limits, OAuth
from embermq.deadline import Deadline
from embermq.net.login_admission import network_of

log = logging.getLogger("embermq.tokens")

JWKS_BYTES_MAX = 256 * 1024


class Waiting(NamedTuple):
    """A login that waits for keys."""

    address: str
    done: Callable[[], None]
    deadline: Deadline


class IssuerKeys:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.settings = OAuth()
        self.limits = Limits()
        self.tokens: Tokens | None = None
        self.thread: ThreadPoolExecutor | None = None
        self.under_way = False
        self.fetched_at = -math.inf
        self.numbers = itertools.count()
        self.waiting: dict[int, Waiting] = {}
        self.waiting_by_address: Counter[str] = Counter()
        self.next_refresh = Deadline(loop.call_later, self.refresh)

    def serve(self, tokens: Tokens | None, config: Config) -> None:
        """At start, and whenever the settings are read anew."""
        before, self.tokens = self.tokens, tokens
        settings = config.oauth
        same = settings.jwks_url == self.settings.jwks_url
        self.settings, self.limits = settings, config.limits
        self.next_refresh.cancel()
        if tokens is None or not settings.jwks_url:
            return
        if same and before is not None:
            tokens.take(before.published)
        tokens.renew = self.renew
        self.fetched_at = -math.inf
        self.refresh()

    def refresh(self) -> None:
        if not self.under_way and self.may_ask:
            self.begin()
        self.next_refresh.set(self.settings.jwks_refresh_s)

    @property
    def may_ask(self) -> bool:
        return self.loop.time() - self.fetched_at >= self.settings.jwks_interval_s

    def renew(self, address: str, done: Callable[[], None]) -> None:
        """Call when the keys are as new as they may be: at once, where it is too early to ask again."""
        address = network_of(address)
        if not self.under_way and self.may_ask:
            self.begin()
        left_s = self.fetched_at + self.settings.jwks_timeout_s - self.loop.time()
        if not self.under_way or left_s <= 0 or not self.has_room(address):
            done()
            return
        number = next(self.numbers)
        deadline = Deadline(self.loop.call_later, partial(self.release, number))
        deadline.set(min(left_s, self.limits.handshake_s))
        self.waiting[number] = Waiting(address, done, deadline)
        self.waiting_by_address[address] += 1

    def has_room(self, address: str) -> bool:
        limits = self.limits
        return (
            len(self.waiting) < max(1, limits.unauthenticated // 2)
            and self.waiting_by_address[address] < max(1, limits.unauthenticated_per_address // 2)
        )  # fmt: skip

    def release(self, number: int) -> None:
        address, done, deadline = self.waiting.pop(number)
        deadline.cancel()
        self.waiting_by_address[address] -= 1
        if not self.waiting_by_address[address]:
            del self.waiting_by_address[address]
        done()

    def begin(self) -> None:
        from embermq.net.https_get import fetch  # brings an HTTP client, which a broker seldom needs

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
        if url != self.settings.jwks_url and self.settings.jwks_url:
            self.begin()  # the settings have changed meanwhile: waiting logins need the other address
            return
        for number in list(self.waiting):
            self.release(number)

    def take(self, tokens: Tokens, work: Future[bytes]) -> None:
        from embermq.net.https_get import FetchError

        try:
            keys = keys_in(work.result())
        except (FetchError, TokenProblem) as problem:
            log.error("no keys for tokens, those that are known stay: %s", problem)
            return
        if set(keys) != set(tokens.published):
            log.info("keys for tokens: %s", ", ".join(repr(name) for name in sorted(keys)))
        tokens.take(keys)

    def close(self) -> None:
        self.next_refresh.cancel()
        for login in self.waiting.values():
            login.deadline.cancel()
        if self.thread is not None:
            self.thread.shutdown(wait=False, cancel_futures=True)
