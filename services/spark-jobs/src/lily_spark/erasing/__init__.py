"""Erasing from the lake and the mirror, and stopping what arrives late of it. docs/adr/0012 says why it is done so."""
