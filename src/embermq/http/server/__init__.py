"""HTTP: connections, requests, routes and who may call them."""
