"""Fetches locked jars from a Maven repository, several at a time, with a progress bar, and checks their digests."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from lily_local.errors import UserError
from lily_local.jars.lock import Jar

PARALLEL = 8
ATTEMPTS = 4

Advance = Callable[[int], None]  # told how many bytes have come; a negative number takes some back


def repository() -> str:
    """Base address of the Maven repository: `$LILY_MAVEN_REPOSITORY` (a mirror), else jgo's default."""
    if given := os.environ.get("LILY_MAVEN_REPOSITORY"):
        return given.rstrip("/")
    from jgo.constants import MAVEN_CENTRAL_URL

    return str(MAVEN_CENTRAL_URL)


def fetch_all(wanted: list[tuple[Jar, Path]]) -> None:
    """Put each jar into its folder; raises UserError when one is unreachable or not what was locked."""
    todo = [(jar, home) for jar, home in wanted if not _have(jar, home)]
    if not todo:
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    progress = Progress(*columns, console=Console(stderr=True))
    with progress, httpx.Client(timeout=30, follow_redirects=True) as client:
        bar = progress.add_task(f"fetching {len(todo)} jars", total=sum(jar.size for jar, _ in todo))

        def advance(received: int) -> None:
            progress.advance(bar, received)

        with ThreadPoolExecutor(PARALLEL) as pool:
            jobs = [pool.submit(_fetch, client, jar, home, advance) for jar, home in todo]
            try:
                for job in jobs:
                    job.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise


def _have(jar: Jar, home: Path) -> bool:
    path = home / jar.file_name
    if not path.exists():
        return False
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == jar.sha256


def _fetch(client: httpx.Client, jar: Jar, home: Path, advance: Advance) -> None:
    home.mkdir(parents=True, exist_ok=True)
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return _fetch_once(client, jar, home, advance)
        except httpx.HTTPError as error:
            gone = isinstance(error, httpx.HTTPStatusError) and error.response.status_code in (401, 403, 404)
            if attempt == ATTEMPTS or gone:
                raise UserError(
                    f"cannot fetch {jar.coordinate} from the Maven repository ({error}); check the network, "
                    "or set LILY_MAVEN_REPOSITORY to a mirror"
                ) from error
            time.sleep(0.5 * 2**attempt)
    return None


def _fetch_once(client: httpx.Client, jar: Jar, home: Path, advance: Advance) -> None:
    part = home / f".{jar.file_name}.part"
    digest, received = hashlib.sha256(), 0
    try:
        with (
            client.stream("GET", f"{repository()}/{jar.repository_path}") as response,
            part.open("wb") as out,
        ):
            response.raise_for_status()
            for chunk in response.iter_bytes(1 << 16):
                out.write(chunk)
                digest.update(chunk)
                received += len(chunk)
                advance(len(chunk))
    except httpx.HTTPError:
        advance(-received)
        raise
    if digest.hexdigest() != jar.sha256:
        part.unlink()
        raise UserError(f"{jar.coordinate} is not the file that was locked (its SHA-256 differs); not used")
    part.replace(home / jar.file_name)
