"""Sockets and timers: asyncio (on uvloop) around the sans-IO protocol of `amqp`."""
