"""Reading assets: by name, by filters, as they were, what happened to them, what is wrong with them.

The latest state comes from the mirror (MongoDB); the past, and what the mirror no longer holds, from the lake.
"""
