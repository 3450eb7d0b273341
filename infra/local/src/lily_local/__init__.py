"""Lily's embedded stack: real servers from package registries, run without containers.

What belongs here: the pinned jars, the components and how each is started and probed, the supervisor that
keeps them running, and the commands `lily up | down | status | logs`. Other packages reach it only through
`lily_local.commands` (the CLI) and `lily_local.stack` (tests); it never imports the services it starts.
"""
