"""The OpenAPI document of the REST API, and the page that shows it."""
