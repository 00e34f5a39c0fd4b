"""A channel: publishing, confirms, consumers, unacknowledged deliveries, transactions."""
