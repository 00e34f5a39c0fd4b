"""The asyncio shell: the same client for coroutines, in the event loop of its user."""
