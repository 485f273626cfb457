"""Envoy's rate limit service, `envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit`; see docs/envoy.md."""
