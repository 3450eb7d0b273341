"""Light reads of the lake for the API: one asset's past, and the state of what is no longer in the mirror.

Reads Delta tables with `deltalake`, in threads; it never writes. Nothing here knows HTTP.
"""
