"""The broker of a `ProcessHost`: `python -m embermq.testing.subprocess_main FD` obeys what comes over FD."""

from __future__ import annotations

import multiprocessing.connection
import signal
import sys
from typing import Any

from embermq.config import Config
from embermq.testing.host import ThreadHost


def main(fd: int) -> None:
    # Control-C in a terminal goes to the whole group: the test ends us when it is done.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    pipe = multiprocessing.connection.Connection(fd)
    host: ThreadHost | None = None
    try:
        while True:
            operation, arguments = pipe.recv()
            answer: Any
            try:
                if operation == "start":
                    settings, in_memory = arguments
                    host = ThreadHost(Config(**settings), in_memory)
                    answer = host.start()
                else:
                    assert host is not None, "start comes first"
                    answer = host.call(operation, *arguments)
            except Exception as error:
                answer = error
            pipe.send(answer)
    except (EOFError, OSError):
        pass  # the test has let go of us
    if host is not None:
        host.stop()


if __name__ == "__main__":
    main(int(sys.argv[1]))
