"""What the API asks of the lake job through `lily.commands`, and how it went."""
