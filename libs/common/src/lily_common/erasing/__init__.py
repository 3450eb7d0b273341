"""What was erased, and how its late arrivals are known: digests, matching, the stop-list. No I/O but in `feed`."""
