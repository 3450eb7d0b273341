"""What the proof is made with, outside the product: the ledger that judges, the load, the receiver, the readers.

Nothing here imports the product's rule of state: the ledger has its own, so that both would have to be wrong alike.
"""
