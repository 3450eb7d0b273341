"""Unit tests need no server. Hypothesis keeps no deadline: the machines are shared, and time is not what is tested."""

from hypothesis import settings

settings.register_profile("unit", deadline=None)
settings.load_profile("unit")
