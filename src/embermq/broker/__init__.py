"""The domain: virtual hosts, exchanges, bindings, queues, users. No sockets, no asyncio, no own clock."""
