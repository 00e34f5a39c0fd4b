"""Queues and streams of AMQP brokers as DataFrames."""
