"""Enforcement in databases that know privileges of their own: PostgreSQL's grants and views kept in line with tags."""
