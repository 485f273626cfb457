"""Who may come in, for the API and the pages: authentication, roles, the gate before every route, the throttle."""
