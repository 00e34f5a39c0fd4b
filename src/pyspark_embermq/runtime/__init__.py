"""Processes of Spark: which Java and Python they run, how they get this package, how errors leave them."""
