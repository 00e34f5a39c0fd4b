"""The server's half of an AMQP conversation, without sockets: bytes in, state changed, bytes out."""
