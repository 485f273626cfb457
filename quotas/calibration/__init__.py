"""The estimator: from measured demand to a rate, a burst and a confidence. Pure: no database, no clock.

docs/calibration.md explains the method. `quotas.recommendations` feeds it and files its results.
"""
