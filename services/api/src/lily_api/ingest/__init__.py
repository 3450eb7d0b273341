"""Events in: HTTP body to CloudEvents to Kafka, answered when Kafka has them.

`parsing` reads the request, `service.Intake` is the one way onto the topics (webhooks and OpenLineage use it too),
`raw` makes the archive's record of a request.
"""
