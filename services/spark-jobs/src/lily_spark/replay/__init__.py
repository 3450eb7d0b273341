"""Playback: the stream of accepted events, read again from bronze, in order, at a chosen rate, to one target.

Runs in the lake job on a thread of its own, beside streams and upkeep. What it sends goes to `lily.replays` alone.
"""
