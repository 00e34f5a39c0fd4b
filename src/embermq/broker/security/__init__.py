"""Users, permissions and how a client authenticates."""
