"""The pinned Java archives: which ones (lock), where they are (cache), how they get there (download).

`infra/pom.xml` says what is wanted; `lock.json` beside this file lists every file with its SHA-256. Nothing is
resolved at run time: a missing file is fetched by its coordinate and must have the locked digest.
"""

from lily_local.jars.cache import ensure, ensure_all, paths
from lily_local.jars.lock import Jar, JarSet, load

__all__ = ["Jar", "JarSet", "ensure", "ensure_all", "load", "paths"]
