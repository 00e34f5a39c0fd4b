"""Processes of Spark: which Java and Python they run, how they get this package, and how errors leave them."""
