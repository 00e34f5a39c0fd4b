"""The OpenAPI document of the API."""
