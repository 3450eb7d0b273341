"""One file per revision, in a chain."""
