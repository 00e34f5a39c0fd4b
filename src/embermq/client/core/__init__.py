"""The client without its sockets: bytes in, messages and answers out. Shells (blocking, aio) do the rest."""
