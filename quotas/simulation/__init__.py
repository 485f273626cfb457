"""What limits would decide: the reference limiter, fast replay of recorded load, scenarios and what-if.

The reference models are those of `headroom_edge.algorithms`; tests hold them to the Lua library.
"""
