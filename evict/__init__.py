"""EVICT: verify the prefix of a draft tree that buys the most tokens per millisecond.

A tree grows (`growth`), is ordered (`tree`), is cut (`selection`, by a measured `cost`),
and is checked against the target without changing its output (`acceptance`).
"""
