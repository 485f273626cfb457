"""Recommendations: measured and filed by calibration, forecast by replay, then tried in shadow, enforced, evaluated."""
