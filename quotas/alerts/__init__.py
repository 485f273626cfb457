"""Alerts: which there are (`rules`), what is wrong now (`findings`), who is told and when (`watch`), and delivery."""
