"""The REST API, and only that: views parse, call one function of `quotas`, and return."""
