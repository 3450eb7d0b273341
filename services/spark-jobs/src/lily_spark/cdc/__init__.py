"""Change data of databases (Debezium's form) as lake tables: one layered table for each source table."""
