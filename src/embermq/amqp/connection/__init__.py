"""A connection: handshake, login, frames in and out, flow control."""
