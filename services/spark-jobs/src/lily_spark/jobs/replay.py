"""Playback in the lake application, and what keeps bronze fit for it: sorted days, and an end where one is wanted."""

from __future__ import annotations

from functools import partial

from lily_spark.replay.player import Player
from lily_spark.runtime.app import Application
from lily_spark.upkeep.retention import expire_events
from lily_spark.upkeep.sorting import sort_past_days
from lily_spark.upkeep.task import Task
from lily_spark.upkeep.worker import Upkeep


def add(app: Application, upkeep: Upkeep) -> None:
    """Play what is asked for by command; before `upkeep` starts."""
    settings = app.settings
    player = Player(settings, upkeep.answer)
    upkeep.take_on("replay", player.begin)
    upkeep.handle("cancel_replay", lambda tenant, args: player.cancel(tenant, args["replay"]))
    upkeep.add(
        Task("expire events", settings.optimize_seconds, partial(expire_events, app.spark, settings)),
        Task("sort past days", settings.optimize_seconds, partial(sort_past_days, settings)),
    )
    player.start()
    app.at_stop.append(player.stop)
