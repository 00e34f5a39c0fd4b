"""The HTTP server: connections, requests, routes, authorisation."""
