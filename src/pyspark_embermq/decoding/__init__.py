"""Messages to rows: the metadata columns, and bodies in the formats of option `format`."""
