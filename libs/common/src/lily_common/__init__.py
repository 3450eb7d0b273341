"""What every Lily package shares: events, identity, the convergence rule, configuration, errors, metrics.

Nothing here does I/O at import, and nothing here knows FastAPI, Spark or a vendor.
"""
