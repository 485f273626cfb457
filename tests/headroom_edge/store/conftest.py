from tests.headroom_edge.limiter.conftest import make_limiter, tick_s

__all__ = ["make_limiter", "tick_s"]
