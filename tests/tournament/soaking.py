"""A soak: random kills, at random moments, one or several at a time, and what must have held throughout."""

import contextlib
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from chaos import Chaos
from postgres import postgres

from slipstream.tournament.leaderboard import Unavailable

AT_ONCE = {1: 0.5, 2: 0.22, 3: 0.15, 5: 0.13}
"""How many are killed at the same moment, and how often."""

PATIENT = 0.3
"""The share of moments before which a new submission must have been acknowledged; the others come at any time, also
while what was killed before has not recovered."""

PAUSE = 0.5
"""Seconds between two moments, in the mean, beyond that."""

STUCK = 900.0
"""Seconds without an acknowledgement after which a tournament has not survived."""

ENOUGH_SUBMISSIONS, ENOUGH_MOMENTS = 1.0, 0.25
"""To have shown anything, a soak must have as many acknowledged submissions as kills, and one before at least this
share of the moments."""


def soak(
    folder: Path,
    kills: int,
    pods: int,
    nodes: int,
    weights: Mapping[str, float],
    seed: int = 0,
    note: Callable[[dict], None] = lambda found: None,
) -> dict:
    """So many random kills. An error is raised if anything is lost, damaged or left over.

    Args:
        folder: for all that is written.
        kills: how many.
        pods: how many train at once.
        nodes: beside the head.
        weights: what is killed, and how often, relative to the others.
        seed: of what is killed when.
        note: is told, after every moment, how far it is. An interrupt of it ends the soak early, with all its checks.
    """
    began = time.monotonic()
    with postgres() if weights.get("leaderboard") else contextlib.nullcontext() as server:
        chaos = Chaos(folder, pods, nodes, seed, server)
        try:
            chaos.start_cluster()
            with chaos.mended():
                chaos.wait_for(pods, STUCK)
                between = kill_all_the_time(chaos, kills, weights, lambda so_far: note(summary(chaos, so_far, began)))
                chaos.wait_for(pods, STUCK)
            chaos.finish()
            found = summary(chaos, between, began) | chaos.check()
            if server is not None:
                server.check_pages()
            return found | {"lost": 0, "corrupt": 0, "orphans": 0, "enough": enough(found)}
        finally:
            chaos.end_all()
            chaos.board.close()


def kill_all_the_time(
    chaos: Chaos, kills: int, weights: Mapping[str, float], note: Callable[[list[int]], None]
) -> list[int]:
    """Kill; how many submissions were acknowledged before each moment, since the last one."""
    between: list[int] = []
    before = chaos.acknowledged()
    try:
        while chaos.killed.total() < kills:
            if chaos.rng.random() < PATIENT:
                chaos.wait_for(1, STUCK)
            time.sleep(chaos.rng.expovariate(1 / PAUSE))
            now = chaos.acknowledged()
            at_once = chaos.rng.choices(list(AT_ONCE), list(AT_ONCE.values()))[0]
            left = min(at_once, kills - chaos.killed.total())
            killed = sum(chaos.kill(what) for what in chaos.rng.choices(list(weights), list(weights.values()), k=left))
            if not killed:
                continue  # what was to be killed is not there at the moment
            between.append(now - before)
            before = now
            with contextlib.suppress(Unavailable):
                assert not (found := chaos.damaged()), f"damaged: {found}"
            note(between)
    except KeyboardInterrupt:
        pass
    return between


def summary(chaos: Chaos, between: list[int], began: float) -> dict:
    """What has happened so far."""
    moments = len(between)
    dry = longest = 0
    for new in between:
        dry = 0 if new else dry + 1
        longest = max(longest, dry)
    return {
        "kills": chaos.killed.total(),
        "killed": dict(chaos.killed),
        "moments": moments,
        "acknowledged": chaos.acknowledged(),
        "acknowledged_before_a_moment": {
            "mean": round(statistics.mean(between or [0]), 2),
            "median": statistics.median(between or [0]),
            "most": max(between, default=0),
        },
        "moments_with_an_acknowledgement_before": sum(new > 0 for new in between),
        "most_moments_without": longest,
        "resumed": chaos.resumed,
        "seconds": round(time.monotonic() - began, 1),
    }


def enough(found: Mapping) -> bool:
    """Whether the tournament was at work throughout, so that something could have been lost."""
    return (
        found["acknowledged"] >= ENOUGH_SUBMISSIONS * found["kills"]
        and found["moments_with_an_acknowledgement_before"] >= ENOUGH_MOMENTS * found["moments"]
    )
