"""The web pages. Views call functions of `quotas`; templates and htmx do the rest."""
