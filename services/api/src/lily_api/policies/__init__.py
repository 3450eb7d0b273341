"""Policies: what tenants say a tag means, and what that comes to for one reader."""
