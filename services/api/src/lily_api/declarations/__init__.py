"""What tenants declare by name for the lake job and others to go by: kept in rows, told on compacted topics."""
