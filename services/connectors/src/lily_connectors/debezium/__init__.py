"""Change data capture: what the Debezium kinds share. A source is a database that Kafka Connect reads for a tenant.

`config` is what a tenant sets, `names` is what things are called, `settings` is what every source tells Connect.
All of it is pure; the API talks to Connect (`lily_api.capture`).
"""
