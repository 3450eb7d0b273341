"""Monte Carlo: its alerts become incidents on the tables that they are about."""
