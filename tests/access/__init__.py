"""Who may do what, from where, and with which credentials: through real clients."""
