"""The egress worker: from `lily.notices` to the outside, each change of effective state once, in order, kept until delivered.

Notice → `notices` (read) → `transitions` (pure: is it news?) → `matching` (pure: who wants it?) → `store` (one transaction:
state and deliveries) → `dispatcher` (order, bounds) → a sink → `ledger` (what became of it). `worker` wires them.
`models` are the tables; the API reads them and changes subscriptions, and nothing else here.
"""
