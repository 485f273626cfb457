"""One module per resource, named as its address under /v1."""
