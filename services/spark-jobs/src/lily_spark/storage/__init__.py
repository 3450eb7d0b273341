"""How Delta's log is written on S3."""
