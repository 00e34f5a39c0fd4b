"""Selectors: conditions on a message's headers and properties, in the language of JMS 2."""
