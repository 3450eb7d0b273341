"""The command line `lily`: every command is a call of Lily's REST API.

`main` mounts the command groups of `commands/` (one file each), `client` speaks HTTP, `settings` decides with whom,
`output` prints. Nothing here imports the services; `lily_local`, when installed, adds the embedded stack's commands.
"""

from importlib.metadata import version

__version__ = version("lily-cli")
