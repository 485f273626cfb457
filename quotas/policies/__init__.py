"""Limits and policies: how they are written, validated, resolved for a tenant and compiled into what Redis holds.

`spec` has the values, `validate` and `document` read what people write, `resolve` is the only place that knows
precedence, `compile` turns a configuration into the image that `quotas.publishing` writes to Redis.
"""
