"""Users, permissions and how a client proves who it is."""
