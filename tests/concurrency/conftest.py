from tests.limiter.conftest import make_limiter, tick_s

__all__ = ["make_limiter", "tick_s"]
