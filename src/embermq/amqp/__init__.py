"""AMQP 0-9-1, the server's half: bytes in, bytes out, no sockets.

`Connection` and `Channel` cimport each other (each .pxd declares its class before it cimports the other), and
that works if the module of `Connection` is imported first: so it is imported here.
"""

import embermq.amqp.connection.connection
import embermq.amqp.dialects  # noqa: F401 (the versions that a connection may be of)
