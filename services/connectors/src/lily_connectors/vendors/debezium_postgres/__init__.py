"""PostgreSQL's change data: every insert, update and delete of chosen tables, read from the log by Debezium."""
