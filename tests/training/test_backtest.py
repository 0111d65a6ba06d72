"""The final report: figures by their definitions, days that nothing saw before, and a record of who looked."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "envs" / "trading"))
from made_prices import SMALL, periods, prices, table, walk

from slipstream import train
from slipstream.cli.main import BAD_INPUT, OK, main
from slipstream.envs.registry import make_env
from slipstream.envs.trading.stock_trading import StockTrading
from slipstream.runs.checkpoint import checkpoint_names
from slipstream.runs.directory import RunDirectory, RunError
from slipstream.training.backtest.baselines import baselines, held, index, rebalanced
from slipstream.training.backtest.ledger import Ledger, traded_by
from slipstream.training.backtest.measures import measure
from slipstream.training.backtest.report import backtest
from slipstream.training.evaluate import evaluation_worlds
from slipstream.training.loading import load_policies

TINY = {
    "num_worlds": 8,
    "rollout_length": 16,
    "total_steps": 256,
    "evaluate_every": 1,
    "evaluate_episodes": 4,
    "checkpoint_every": 0.0,
}


def trained(folder: Path, close: np.ndarray, seed: int = 0) -> Path:
    """A short run in a market of these prices."""
    folder.mkdir(exist_ok=True)
    table(close).to_csv(folder / "prices.csv", index=False)
    options = {"file": str(folder / "prices.csv"), **SMALL, **periods(len(close))}
    train("stock-trading", run=folder / f"seed{seed}", seed=seed, quiet=True, env_options=options, hidden=(8,), **TINY)
    return folder / f"seed{seed}"


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> list[Path]:
    """Two seeds in one market."""
    folder = tmp_path_factory.mktemp("runs") / "market"
    return [trained(folder, walk(), seed) for seed in (0, 1)]


def market(**options) -> StockTrading:
    env = make_env("stock-trading", **options)
    assert isinstance(env, StockTrading)
    return env


# Figures.


def test_measures_follow_their_definitions():
    wealth = np.array([1.0, 1.1, 0.88, 0.99, 1.21])
    days = prices(np.ones((5, 1))).days
    found = measure(Ledger("x", days, wealth, turnover=2.0, costs=0.01), rows_per_year=2.0)
    returns = wealth[1:] / wealth[:-1] - 1
    assert found.cumulative_return == pytest.approx(0.21)
    assert found.annual_return == pytest.approx(0.1)
    assert found.volatility == pytest.approx(returns.std(ddof=1) * 2**0.5)
    assert found.sharpe == pytest.approx(returns.mean() * 2 / found.volatility)
    assert found.max_drawdown == pytest.approx(0.2)
    assert found.calmar == pytest.approx(0.5)
    assert found.turnover == pytest.approx(1.0) and found.costs == 0.01


def test_a_fall_on_the_first_day_is_a_drawdown_and_no_risk_has_no_ratio():
    days = prices(np.ones((3, 1))).days
    assert measure(Ledger("x", days, np.array([1.0, 0.7, 0.8]), 0.0, 0.0), 252).max_drawdown == pytest.approx(0.3)
    still = measure(Ledger("x", days, np.ones(3), 0.0, 0.0), 252)
    assert np.isnan(still.sharpe) and np.isnan(still.calmar) and still.cumulative_return == 0


def test_equal_weights_are_bought_once_and_held():
    env = market(cost=0.01).for_backtest("validation")
    equal, least, _ = baselines(env)
    close = env.market.prices.close[env.window.first : env.window.last + 1]
    np.testing.assert_allclose(equal.wealth[1:], (close[1:] / close[0]).mean(axis=1) / 1.01)
    assert equal.costs == pytest.approx(0.01 / 1.01) and equal.turnover == pytest.approx(1 / 1.01)
    assert least.turnover > equal.turnover
    assert measure(least, 252).volatility < measure(equal, 252).volatility


def test_minimum_variance_has_less_variance_and_knows_only_the_past():
    env = market().for_backtest("validation")
    looked = []

    def choose(past):
        looked.append(past)
        return np.full(20, 1 / 20)

    held("x", env, choose, 21, 252)
    close = env.market.prices.close
    changes = close[1:] / close[:-1] - 1
    for k, past in enumerate(looked):
        day = env.window.first + 21 * k
        np.testing.assert_array_equal(past, changes[day - 252 : day])
    assert len(looked) == -(-(len(env.window) - 1) // 21)


def test_rebalancing_pays_its_costs_out_of_what_is_there():
    worth, weights = np.array([0.5, 0.2, 0.0]), np.array([0.1, 0.4, 0.5])
    wanted, traded = rebalanced(worth, 1.0, weights, 0.02)
    np.testing.assert_allclose(wanted / wanted.sum(), weights)
    assert traded == pytest.approx(np.abs(wanted - worth).sum())
    assert wanted.sum() + 0.02 * traded == pytest.approx(1.0)


def test_the_index_is_the_one_that_comes_with_the_prices_or_the_mean(tmp_path):
    known = index(market().for_backtest("validation"))
    assert known.name == "S&P 500" and known.wealth[0] == 1 and known.wealth[-1] == pytest.approx(1.299, abs=1e-3)
    table(walk()).to_csv(tmp_path / "p.csv", index=False)
    env = market(file=str(tmp_path / "p.csv"), **SMALL, **periods(200)).for_backtest()
    close = env.market.prices.close[env.window.first : env.window.last + 1]
    mean = index(env)
    assert mean.name == "mean of stocks"
    assert mean.wealth[-1] == pytest.approx(np.prod((close[1:] / close[:-1]).mean(axis=1)))
    own = market(file=str(tmp_path / "p.csv"), index="C", **SMALL, **periods(200)).for_backtest()
    assert index(own).name == "C" and own.stocks == 2


# Days that nothing saw before.


def test_a_ledger_is_what_the_market_itself_reports(runs):
    run = RunDirectory.open(runs[0])
    options = run.config()["env_options"]
    env = market(**options).for_backtest()
    ledger = traded_by("x", *load_policies(run), env)
    assert len(ledger.wealth) == len(ledger.days) == len(env.window)
    assert str(ledger.days[0])[:10] == options["test_period"][:10]
    again = traded_by("x", *load_policies(run), env, "scalar")
    np.testing.assert_allclose(ledger.wealth, again.wealth, rtol=1e-4)
    assert ledger.turnover == pytest.approx(again.turnover, rel=1e-3) and ledger.turnover > 0
    assert ledger.costs == pytest.approx(again.costs, rel=1e-3)


def test_policies_are_evaluated_in_the_validation_period(runs):
    options = RunDirectory.open(runs[0]).config()["env_options"]
    env = evaluation_worlds("stock-trading", 4, 0, **options).env
    assert isinstance(env, StockTrading) and env.period == "validation"
    assert evaluation_worlds(env, 4, 0).env.period == "validation"


def test_prices_of_the_test_period_change_nothing_in_a_run(runs, tmp_path):
    close = walk()
    close[200 - 46 :] *= 1.2
    other = trained(tmp_path / "other", close)
    rows = [[json.loads(line) for line in (run / "metrics.jsonl").open()] for run in (runs[0], other)]
    told = [
        [{n: v for n, v in row.items() if n.startswith(("return", "evaluation", "loss"))} for row in r] for r in rows
    ]
    assert told[0] == told[1] and any("evaluation/trader" in row for row in told[0])


# The command.


def test_the_report_shows_every_seed_and_what_needs_no_learning(runs, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["backtest", *map(str, runs)]) == OK
    shown = capsys.readouterr()
    assert max(map(len, shown.out.splitlines()[:12])) <= 80
    for words in ("seed 0", "seed 1", "mean of 2", "deviation", "equal weights", "minimum variance", "mean of stocks"):
        assert words in shown.out
    assert "in the test period" in shown.out and "Only closes are known" in shown.out
    assert shown.err == ""
    for suffix in (".png", ".svg"):
        assert (runs[0] / f"backtest{suffix}").stat().st_size > 1000


def test_programs_get_the_same_as_json(runs, tmp_path, capsys):
    assert main(["backtest", str(runs[0].parent), "--json", "--out", str(tmp_path / "made" / "picture.png")]) == OK
    told = json.loads(capsys.readouterr().out)
    assert [Path(r["run"]).name for r in told["runs"]] == ["seed0", "seed1"] and told["period"] == "test"
    returns = [r["cumulative_return"] for r in told["runs"]]
    assert told["spread"]["cumulative_return"]["mean"] == pytest.approx(np.mean(returns))
    assert set(told["baselines"]) == {"equal weights", "minimum variance", "mean of stocks"}
    assert told["files"] == [str(tmp_path / "made" / f"picture{s}") for s in (".png", ".svg")]
    assert all(Path(f).exists() for f in told["files"])


def test_a_run_keeps_who_looked_at_its_test_period(runs, monkeypatch):
    monkeypatch.setattr("slipstream.training.backtest.report.baselines", lambda market: [])
    run, record, warnings = RunDirectory.open(runs[1]), runs[1] / "backtests.json", []
    record.unlink(missing_ok=True)
    backtest([run], warnings.append, "validation")
    assert not record.exists()
    first, last = checkpoint_names(run)[:2]
    for _ in range(2):
        backtest([run], warnings.append, checkpoint=first)
    assert warnings == []
    (look,) = json.loads(record.read_text())
    assert look["checkpoint"] == first and look["first"] < look["last"] and len(look["sha256"]) == 64
    backtest([run], warnings.append, checkpoint=last)
    assert f"was judged by its test period before, on {look['time']} with {first}" in warnings[0]
    assert [look["checkpoint"] for look in json.loads(record.read_text())] == [first, last]
    record.write_text("[1]")
    with pytest.raises(RunError, match="is damaged: it holds no list of reports"):
        backtest([run], warnings.append)
    record.unlink()


def test_runs_that_do_not_belong_together_are_refused(runs, tmp_path, capsys):
    other = tmp_path / "cheap"
    other.mkdir()
    config = json.loads((runs[0] / "config.json").read_text())
    for changes, message in (
        ({"env_options": {**config["env_options"], "cost": 0.0}}, "differ in cost of their market"),
        ({"env": "cartpole", "env_options": {}}, "was trained in cartpole"),
    ):
        (other / "config.json").write_text(json.dumps({**config, **changes}))
        assert main(["backtest", str(runs[0]), str(other)]) == BAD_INPUT
        told = capsys.readouterr().err
        assert message in told and told.count("\n") == 1
    assert main(["backtest", str(other)]) == BAD_INPUT
    assert "which is no market" in capsys.readouterr().err
    assert main(["backtest"]) == BAD_INPUT and main(["backtest", str(tmp_path / "nowhere")]) == BAD_INPUT


def test_a_file_of_prices_is_found_from_anywhere(tmp_path, monkeypatch):
    from slipstream.training.choices import default_config
    from slipstream.training.source import from_anywhere

    table(walk()).to_csv(tmp_path / "p.csv", index=False)
    monkeypatch.chdir(tmp_path)
    config = default_config("stock-trading", env_options={"file": "p.csv", **SMALL, **periods(200)})
    assert from_anywhere(config).env_options["file"] == str(tmp_path / "p.csv")
    assert from_anywhere(config).env_options["test_period"] == periods(200)["test_period"]
