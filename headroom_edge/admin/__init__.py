"""`headroom-admin`: administers a Headroom over its REST API, from a pipeline or any other machine.

Needs a URL and a token, but no database, no Django and no Redis. Imports nothing from the rest of the edge.
"""
