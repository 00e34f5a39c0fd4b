"""Metrics in Prometheus' formats."""
