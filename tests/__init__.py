"""The proof. `unit` and `contract` need no server, `integration` one service, `e2e` and `chaos` the whole stack."""
