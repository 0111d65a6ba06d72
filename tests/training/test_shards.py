"""Shares of lanes, and the small parts of training in several processes."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from slipstream.nets.average import Average
from slipstream.training.choices import default_config
from slipstream.training.config import FusedConfig, PolicyConfig
from slipstream.training.fused import FusedTrainer
from slipstream.training.launch import _devices
from slipstream.training.parallel import deal, gathered
from slipstream.training.policies import Policies
from slipstream.training.shards import Shards
from slipstream.training.team import COORDINATOR, PROCESS, PROCESSES, Seat, _refusal


def test_processes_that_do_not_divide_the_worlds_are_refused_before_anything_starts():
    with pytest.raises(ValueError, match=r"1,000 worlds cannot be shared out between 3 processes .* take 999 or 1,002"):
        default_config("cartpole", num_worlds=1000, processes=3)
    with pytest.raises(ValueError, match=r"8 worlds .* 16 processes evenly: take 16"):
        FusedConfig(num_worlds=8, processes=16)
    with pytest.raises(ValueError, match="processes must be a positive whole number, got 0"):
        FusedConfig(processes=0)
    with pytest.raises(ValueError, match="4 shares cannot be dealt to 3 processes"):
        FusedConfig(num_worlds=12, processes=3, shares=4)


def test_what_several_processes_cannot_do_is_refused():
    with pytest.raises(ValueError, match="'sac' learns from a replay"):
        default_config("pendulum", algo="sac", processes=2)
    with pytest.raises(ValueError, match="leave --tune out"):
        FusedConfig(processes=2, tune=True)
    with pytest.raises(ValueError, match="'processes' is a setting of the fused driver"):
        default_config("gym:CartPole-v1", processes=2)


def test_shares_stay_where_they_can_be_dealt():
    four = FusedConfig(num_worlds=12, processes=4)
    assert four.shares == 4
    assert [dataclasses.astuple(four.dealt_to(n))[-2:] for n in (1, 2, 4, 3)] == [(1, 4), (2, 4), (4, 4), (3, 3)]


def test_the_environment_says_which_process_this_is(monkeypatch):
    assert Seat.from_environment() is None
    for name, value in {COORDINATOR: "10.0.0.1:5000", PROCESSES: "4", PROCESS: "3"}.items():
        monkeypatch.setenv(name, value)
    assert Seat.from_environment() == Seat("10.0.0.1", 5000, 4, 3)
    monkeypatch.setenv(PROCESSES, "1")
    with pytest.raises(ValueError, match=r"must be within 0 .. 0"):
        Seat.from_environment()


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [(PROCESS, "4", "within 0 .. 3 .* got 4"), (PROCESS, "first", "whole number, got 'first'"),
     (COORDINATOR, "10.0.0.1", "host:port"), (COORDINATOR, "", f"not {COORDINATOR}")],
)  # fmt: skip
def test_an_environment_that_makes_no_sense_is_refused(monkeypatch, name, value, problem):
    for usual, content in {COORDINATOR: "10.0.0.1:5000", PROCESSES: "4", PROCESS: "0", name: value}.items():
        monkeypatch.setenv(usual, content)
    with pytest.raises(ValueError, match=problem):
        Seat.from_environment()


def test_strangers_are_refused():
    seat = Seat("127.0.0.1", 5000, 2, 0, "word")
    from slipstream import __version__

    friend = {"secret": "word", "version": __version__, "count": 2, "number": 1}
    assert _refusal(seat, friend, {}) is None
    for change, problem in [
        ({"secret": "guess"}, "the same SLIPSTREAM_SECRET"),
        ({"version": "0.0.1"}, "this one 0.0.1"),
        ({"count": 3}, "SLIPSTREAM_PROCESSES=2"),
    ]:
        assert problem in str(_refusal(seat, friend | change, {}))
    assert "already" in str(_refusal(seat, friend, {1: None}))  # type: ignore[dict-item]


def test_every_process_has_a_gpu_of_its_own(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    assert _devices(2, "auto") == [{"CUDA_VISIBLE_DEVICES": "3"}, {"CUDA_VISIBLE_DEVICES": "5"}]
    assert _devices(2, "llvm") == [{}, {}]
    with pytest.raises(ValueError, match="4 processes need a GPU each, and there are 2"):
        _devices(4, "cuda")


def test_worlds_that_were_dealt_are_gathered_as_they_were():
    worlds = {"worlds/state/x": np.arange(8), "slot/observation": np.arange(24).reshape(3, 8), "worlds/age": np.ones(1)}
    dealt = deal(worlds, 4)
    assert [list(d["worlds/state/x"]) for d in dealt] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    again = gathered(dealt)
    assert all(np.array_equal(worlds[n], again[n]) for n in worlds) and again.keys() == worlds.keys()


def test_lanes_dealt_anew_stay_with_their_agents(make_config):
    policies = Policies(FusedTrainer(make_config("Duels", ("red", "blue"))).worlds.groups, {"all": _both()})
    # Two groups of 2 and 3 agents in 4 worlds, in a single share: group follows group.
    red, blue = ([f"{g}{w}{a}" for w in range(4) for a in range(n)] for g, n in (("r", 2), ("b", 3)))
    lanes = np.array([red + blue])
    dealt = policies.dealt_anew("all", lanes, 1, 2)
    assert list(dealt[0, :10]) == ["r00", "r01", "r10", "r11", "b00", "b01", "b02", "b10", "b11", "b12"]
    assert np.array_equal(policies.dealt_anew("all", dealt, 2, 1), lanes)
    assert np.array_equal(policies.dealt_anew("all", policies.dealt_anew("all", dealt, 2, 4), 4, 2), dealt)


def _both() -> PolicyConfig:
    return PolicyConfig(("red", "blue"))


def test_shares_draw_different_actions_and_a_single_share_those_it_always_did(make_config):
    def actions(shares: Shards) -> np.ndarray:
        config = make_config("Pull", ("hand",), num_worlds=8)
        driver = dataclasses.replace(config.driver, shares=shares.count)
        trainer = FusedTrainer(dataclasses.replace(config, driver=driver), shards=shares)
        trainer.iterate()
        return np.asarray(trainer.store.kept["hand"].action[0])

    whole, second = actions(Shards(2, 2)), actions(Shards(2, 1, 1))
    np.testing.assert_allclose(whole[..., 4:], second, rtol=1e-6)
    assert not np.isclose(whole[..., :4], whole[..., 4:]).any()


def test_the_first_value_is_of_the_first_share_that_has_one():
    average = Average(("shares",), 3)
    values = jnp.array([[1.0], [2.0], [3.0]])

    def first(valid: list[bool]) -> list[float]:
        return jax.vmap(average.first, axis_name="shares")(values, jnp.array(valid))[:, 0].tolist()

    assert first([True, True, True]) == [1.0] * 3
    assert first([False, True, True]) == [2.0] * 3
    assert first([False, False, False]) == [1.0] * 3
