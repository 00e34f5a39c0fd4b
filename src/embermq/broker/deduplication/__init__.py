"""Deduplication: ids of published messages, remembered in a window that survives a crash."""
