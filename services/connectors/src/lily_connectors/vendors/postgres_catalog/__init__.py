"""PostgreSQL's catalogue: databases, schemas, tables, views and columns as assets, asked for, not sent."""
