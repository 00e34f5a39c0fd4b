"""Pipelines: a source, a transformation and a sink under a name, run and watched by `embermq pipeline`."""
