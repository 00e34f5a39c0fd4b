"""What somebody is told as soon as a write is safe, and how that went.

Between a write and the word about it there is nothing to be thought about, but a lot of code that is cold by
then: so who writes (see `kernel.write_through`) may say it, too, with a plain `send` to a socket.
"""

from __future__ import annotations


class Promise:
    __slots__ = ("seconds", "sent", "socket", "words")

    def __init__(self) -> None:
        self.socket = -1  # a descriptor; -1: whoever asked for the write tells it
        self.words = b""
        self.sent = 0  # how many of these bytes have left
        self.seconds = 0.0  # the write took

    def prepare(self, socket: int, words: bytes) -> None:
        self.socket = socket
        self.words = words
        self.sent = 0
