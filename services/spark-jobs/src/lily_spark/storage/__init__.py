"""The lake as files: Delta's log and what it names."""
