"""Methods of channels, queues and streams, written once for the blocking and the asyncio shell."""
