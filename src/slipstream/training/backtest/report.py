"""The final report: runs through the days that neither training nor ranking saw, beside what needs no learning."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from slipstream.envs.registry import make_env
from slipstream.envs.trading.periods import TEST
from slipstream.envs.trading.stock_trading import StockTrading
from slipstream.runs.checkpoint import load_checkpoint
from slipstream.runs.directory import RunDirectory, RunError, write_atomically
from slipstream.training.backtest.baselines import baselines
from slipstream.training.backtest.ledger import Ledger, traded_by
from slipstream.training.backtest.measures import Measures, measure
from slipstream.training.config import PipelineConfig
from slipstream.training.config_json import from_json
from slipstream.training.loading import load_policies


@dataclass(frozen=True)
class Report:
    """What came out.

    Attributes:
        market: in the period.
        runs: the ledger and the figures of each run, in the order of the runs.
        others: of what they are compared with.
    """

    market: StockTrading
    runs: list[tuple[Ledger, Measures]]
    others: list[tuple[Ledger, Measures]]


def backtest(
    runs: Sequence[RunDirectory],
    warn: Callable[[str], None],
    period: str = TEST,
    checkpoint: str = "best",
    backend: str = "auto",
) -> Report:
    """Trade through a period with the policies of runs, which must all be of one market.

    Each run keeps a record of when it was judged by its test period, and as what.

    Args:
        runs: usually the same but for their seed.
        warn: is told of runs that were judged before as something else.
        period: `test`, or `validation` to look at days that are not for the final report.
        checkpoint: `best`, `latest`, or a checkpoint's name.
        backend: what compiles the market.
    """
    market = _market_of(runs).for_backtest(period)
    per_year = market.market.prices.rows_per_year
    judged = []
    for run, name in zip(runs, _names(runs)):
        ledger = traded_by(name, *load_policies(run, checkpoint), market, backend)
        figures = measure(ledger, per_year)
        if period == TEST:
            _remember(run, load_checkpoint(run, checkpoint).name, market, figures, warn)
        judged.append((ledger, figures))
    return Report(market, judged, [(ledger, measure(ledger, per_year)) for ledger in baselines(market)])


def _names(runs: Sequence[RunDirectory]) -> list[str]:
    """What to call runs: by their seeds if these differ."""
    seeds = [from_json(run.config()).seed for run in runs]
    return [f"seed {seed}" for seed in seeds] if len(set(seeds)) == len(runs) else [run.path.name for run in runs]


def _market_of(runs: Sequence[RunDirectory]) -> StockTrading:
    configs = [from_json(run.config()) for run in runs]
    for run, config in zip(runs, configs):
        if isinstance(config.driver, PipelineConfig) or config.env != configs[0].env:
            raise RunError(f"{run.path} was trained in {config.env}; a backtest is of runs in one and the same market.")
        different = sorted(
            name
            for name in {*config.env_options, *configs[0].env_options}
            if config.env_options.get(name) != configs[0].env_options.get(name)
        )
        if different:
            raise RunError(
                f"{run.path} and {runs[0].path} differ in {', '.join(different)} of their market: backtest them one "
                "by one."
            )
    env = make_env(configs[0].env, **dict(configs[0].env_options))
    if not isinstance(env, StockTrading):
        raise RunError(
            f"{runs[0].path} was trained in {configs[0].env}, which is no market: there is nothing to trade."
        )
    return env


def _remember(
    run: RunDirectory, checkpoint: str, market: StockTrading, figures: Measures, warn: Callable[[str], None]
) -> None:
    """Keep in the run that its test period was looked at, unless it was so before by the same policy."""
    prices, window = market.market.prices, market.window
    looked = {
        "checkpoint": checkpoint,
        "prices": prices.source,
        "sha256": prices.sha256,
        "first": str(prices.days[window.first]),
        "last": str(prices.days[window.last]),
    }
    looks = _looks(run)
    if any(all(look.get(name) == value for name, value in looked.items()) for look in looks):
        return
    if looks:
        warn(
            f"{run.path} was judged by its test period before, on {looks[-1]['time']} with {looks[-1]['checkpoint']}: "
            "what is chosen by it will not do as well in days to come."
        )
    moment = time.strftime("%Y-%m-%d %H:%M:%S")
    looks.append({"time": moment, **looked, "measures": asdict(figures)})
    write_atomically(run.backtests, json.dumps(looks, indent=2) + "\n")


def _looks(run: RunDirectory) -> list[dict[str, Any]]:
    try:
        looks = json.loads(run.backtests.read_text())
    except FileNotFoundError:
        return []
    except ValueError as error:
        raise RunError(f"{run.backtests} is damaged: {error}.") from error
    if not isinstance(looks, list) or not all(isinstance(look, dict) for look in looks):
        raise RunError(f"{run.backtests} is damaged: it holds no list of reports.")
    return looks
