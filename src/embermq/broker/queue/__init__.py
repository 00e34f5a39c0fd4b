"""Queues: what they hold, how they deliver, and the arguments that change either."""
