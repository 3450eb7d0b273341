"""What is shown of Connect's errors."""

from __future__ import annotations

from lily_api.capture.words import shortened, shown

REFUSED = """Connector configuration is invalid and contains the following 1 error(s):
Error while validating connector config: FATAL: password authentication failed for user "lily"
You can also find the above list of errors at the endpoint `/connector-plugins/{connectorType}/config/validate`"""

TRACE = """org.apache.kafka.connect.errors.ConnectException: Could not start with hunter2
\tat io.debezium.A.b(A.java:1)
\tat io.debezium.C.d(C.java:2)
Caused by: java.lang.IllegalStateException: one
\t... 12 more
Caused by: org.postgresql.util.PSQLException: Connection refused
\tat org.postgresql.X.y(X.java:3)
"""


def test_connects_frame_is_taken_off() -> None:
    assert shown(REFUSED, None) == (
        'Error while validating connector config: FATAL: password authentication failed for user "lily"'
    )


def test_the_password_is_masked_and_the_text_is_cut() -> None:
    assert shown("it was hunter2, really", "hunter2") == "it was **********, really"
    assert len(shown("x" * 10_000, None)) == 400
    assert len(shown("x" * 10_000, None, whole=True)) == 10_000
    assert shown("", None) == ""


def test_a_trace_is_its_causes() -> None:
    assert shortened(TRACE, "hunter2").splitlines() == [
        "org.apache.kafka.connect.errors.ConnectException: Could not start with **********",
        "Caused by: java.lang.IllegalStateException: one",
        "Caused by: org.postgresql.util.PSQLException: Connection refused",
    ]
    assert shortened("", None) == ""
