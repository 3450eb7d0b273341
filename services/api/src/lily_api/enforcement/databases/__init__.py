"""Databases that Lily keeps in line with policies by their own means."""
