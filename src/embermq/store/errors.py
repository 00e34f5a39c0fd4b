"""Exceptions of the store, in one small tree. Errors of the disk itself stay `OSError`.

StoreFailure
|-- NewerVersion        a file was written by a newer EmberMQ; nothing was touched
|-- DirectoryLocked     another process holds the data directory
|-- NotADataDirectory   the directory holds something else
|   `-- DefinitionsBehind   the definitions have lost what was committed to them
`-- CommitFailed        a sync failed once: nothing is reported safe any more
"""

from __future__ import annotations

import os


class StoreFailure(Exception):
    """Something that a person has to look at; the text says what and where."""


class NewerVersion(StoreFailure):
    pass


class DirectoryLocked(StoreFailure):
    pass


class NotADataDirectory(StoreFailure):
    pass


class DefinitionsBehind(NotADataDirectory):
    def __init__(self, what: str, path: str) -> None:
        self.what = what
        super().__init__(
            f"{what}. Put the newest copy of it back (with its -wal file, if there is one), or accept what "
            f"is left with 'embermq store adopt {os.path.dirname(path)}'"
        )


class CommitFailed(StoreFailure):
    pass
