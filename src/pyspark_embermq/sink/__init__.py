"""Writing: rows of a DataFrame published as messages, with confirms."""
