"""Enforcement over HTTP: `POST /v1/check`, `POST /v1/release` and `/v1/authz`. Needs the extra `gateway`."""
