"""File descriptors: how many the process may have."""

from __future__ import annotations

import resource
import sys


def file_limit() -> int:
    """The soft limit, which is the one that counts."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


def raise_file_limit() -> tuple[int, int]:
    """As high as the system lets us (the hard limit); what it was before, and what it is now.

    The soft limit is 1,024 on most systems for the sake of select(2), which is not used here.
    """
    before = file_limit()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError):  # macOS names a hard limit that it does not grant
        pass
    return before, file_limit()
