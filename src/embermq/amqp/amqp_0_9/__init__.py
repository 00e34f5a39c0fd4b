"""AMQP 0-9: what it has besides 0-9-1. Requests and responses, class message, channels that are resumed."""
