"""What is known of a file about writing to it past the page cache: `synced_write` says when, and does it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embermq.store.kernel import Blocks

if TYPE_CHECKING:
    from embermq.store.filesystem import File


class PastCache:
    __slots__ = ("blocks", "failed", "opened", "steady", "synced_end")

    def __init__(self) -> None:
        self.opened: File | None = None  # the same file once more, for whole blocks
        self.blocks: Blocks | None = None  # its end, while it is written to that way
        self.synced_end = 0  # where the last synced write ended
        self.steady = 0  # how many there were, each where the one before had ended
        self.failed = False  # it cannot be done with this file

    def count(self, position: int) -> int:
        """Another synced write, at `position`: how many are there in a row?"""
        self.steady = self.steady + 1 if position == self.synced_end else 1
        return self.steady

    def end(self) -> None:
        """The file is not what the blocks say, or soon will not be."""
        self.blocks = None

    def give_up(self) -> None:
        self.blocks = None
        self.failed = True
