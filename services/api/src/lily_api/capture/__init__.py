"""Change data capture: keeping Kafka Connect in agreement with the sources that tenants have connected.

What a tenant wants stands in `capture_sources`, written in the transaction that changes the connector. A reconciler
(`reconciler`) makes the rest agree with it, step by step and as often as it takes: the policy topic, the password's file,
the connector on Connect, the replication slot (`steps`). A crash between any two steps leaves a row that is looked at again.
"""
