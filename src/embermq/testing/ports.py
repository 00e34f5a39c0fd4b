"""Ports that are held for a broker while it is down.

The system gives a free port to a process that asks for any, and to each outgoing connection. A broker that is
killed and started again would now and then find its port taken. So the ports are held meanwhile: by sockets
that are bound and do not listen. No process is given such a port, clients that try it are refused as if it
were free, and the broker itself may listen on it, because servers allow their addresses to be reused.
"""

from __future__ import annotations

import socket


class HeldPorts:
    def __init__(self) -> None:
        self._sockets: list[socket.socket] = []

    def hold(self, host: str, *ports: int) -> None:
        """Right after the broker has ended. A port that another process was quicker to take is not held."""
        self.release()
        for port in filter(None, ports):
            holder = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
            self._sockets.append(holder)
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                holder.bind((host, port))
            except OSError:
                self._sockets.pop().close()

    def release(self) -> None:
        """Once the broker listens again, or will not come back."""
        while self._sockets:
            self._sockets.pop().close()
