"""The limits matrix: limits of tiers and of everyone by endpoint, read and edited as one table or as CSV."""
