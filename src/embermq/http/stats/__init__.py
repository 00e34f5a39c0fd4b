"""Rates, totals and samples over time."""
