"""The database's schema over time (Alembic), and the way to bring a database up to date."""
