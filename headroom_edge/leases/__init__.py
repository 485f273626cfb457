"""Leases: blocks of units that this process took from its limits and may spend without asking the store. No I/O.

`block` is one grant, `lease` what is known about one subject of a plan, `demand` how much to ask for next, `book` all
leases of a limiter. `core` sends what the book asks for; `background_chores` settles what nobody uses any more.
"""
