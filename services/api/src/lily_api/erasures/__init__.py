"""Erasures: asked for, stopped at the door, carried out in PostgreSQL, awaited in Kafka, reported under signature."""
