"""One folder per vendor: config.py, inbound.py and/or outbound.py (or harvest.py), fixtures/, README.md.

Nothing outside a folder names it: `lily_connectors.registry` finds them. `make new-connector NAME=x` makes one.
"""
