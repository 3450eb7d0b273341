"""Policies: what a tag means for those who read. One function decides, wherever it is enforced."""
