"""Who has quota: tiers, tenants, keys, members and tokens; tenant isolation and the audit history in PostgreSQL.

Writes that make a revision are in `quotas.tenants` and `quotas.api_keys`.
"""
