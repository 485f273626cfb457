"""Usage: moves counters from Redis to Postgres, and answers every question about them.

- Cell: one counter. The number and cost of requests with one outcome, of one tenant, endpoint and limit, in one
  second (in one minute while drains are behind).
- Log: the cells of each drain, packed (`UsageLog`). A row stays until every fold has read it.
- Rollup: a table of sums per 10 s, minute, hour or day, with one row per tenant, endpoint, outcome and limit.
- Packed hour: the 10 s or minute rollup of an hour that is over, with all steps of a series in one row.
- Total: a rollup over a tier, over all tenants, or over all endpoints of a tenant.

`drain` moves cells to the log, `fold` adds them to the rollups, `maintenance` manages partitions, `queries` reads.
Not here: counting itself (headroom_edge/lua) and conclusions from usage (calibration, recommendations, alerts).
"""
