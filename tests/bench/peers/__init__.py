"""What Lily's ingest is measured against: the plain ways of getting events into the same broker."""
