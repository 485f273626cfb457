"""The demo: a ride-hailing platform with two weeks of changes and traffic, and live traffic that continues it."""
