"""What the store refuses, in one small tree. Errors of the disk itself stay `OSError`.

StoreFailure
|-- NewerVersion        a file was written by a newer EmberMQ; nothing was touched
|-- DirectoryLocked     another process holds the data directory
|-- NotADataDirectory   the directory holds something else
`-- CommitFailed        a sync failed once: nothing is reported safe any more
"""

from __future__ import annotations


class StoreFailure(Exception):
    """Something that a person has to look at; the text says what and where."""


class NewerVersion(StoreFailure):
    pass


class DirectoryLocked(StoreFailure):
    pass


class NotADataDirectory(StoreFailure):
    pass


class CommitFailed(StoreFailure):
    pass
