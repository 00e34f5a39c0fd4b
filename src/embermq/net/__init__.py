"""Sockets and timers: asyncio (on uvloop) around the sans-IO conversation of room amqp."""
