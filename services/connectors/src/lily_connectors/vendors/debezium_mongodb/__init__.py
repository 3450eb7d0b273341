"""MongoDB's change data: every insert, update and delete of chosen collections, from its change stream, by Debezium."""
