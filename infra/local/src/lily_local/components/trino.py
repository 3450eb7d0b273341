"""Trino: one coordinator that is its own worker, reading the lake and asking Lily what may be seen. Started when asked for."""

from __future__ import annotations

from lily_local import java
from lily_local.components.model import Component, Context
from lily_local.components.probes import port_open
from lily_local.environment import HOST
from lily_local.trino import configure, install

#: Trino 476 refuses to start below.
OLDEST_JAVA = 24

_JVM = (
    "-Xms256m",
    "-Xmx1200m",
    "-XX:+UseG1GC",
    "-XX:+ExitOnOutOfMemoryError",
    "-XX:-UsePerfData",
    "-XX:ReservedCodeCacheSize=256m",
    "-XX:-OmitStackTraceInFastThrow",
    "-XX:+EnableDynamicAgentLoading",
    "-Dfile.encoding=UTF-8",
    "-Djdk.attach.allowAttachSelf=true",
    "-Djdk.nio.maxCachedBufferSize=2000000",
    "--enable-native-access=ALL-UNNAMED",
    "-Duser.timezone=UTC",
)


def _command(context: Context) -> list[str]:
    home = install.installed()
    main = configure.folder(context) / "config.properties"
    found = java.newer(OLDEST_JAVA, "Trino")
    return [
        found.command,
        *_JVM,
        f"-Dconfig={main}",
        "-cp",
        f"{home / 'lib'}/*",
        "io.trino.server.TrinoServer",
    ]


def _prepare(context: Context) -> None:
    java.newer(OLDEST_JAVA, "Trino")
    configure.write(context, install.installed())


def _ready(context: Context) -> bool:
    port = context.config.port("trino")
    if not port_open(port):
        return False
    import httpx  # slow to load, and the commands load this module

    answer = httpx.get(f"http://{HOST}:{port}/v1/info", timeout=3, trust_env=False)
    return answer.status_code == 200 and answer.json().get("starting") is False


TRINO = Component(
    name="trino",
    command=_command,
    prepare=_prepare,
    ready=_ready,
    needs=("s3", "api"),
    ports=("trino",),
    jar_sets=("trino",),
    optional=True,
    start_timeout=240,
    stop_timeout=20,
)
