"""The tenant's changes as server-sent events, read from its topic `lily.<tenant>.events`.

One Kafka consumer per tenant and process follows the topic's end and feeds all of the tenant's streams from a
buffer. A stream that resumes further back reads Kafka by itself until it has caught up with that buffer.
"""
