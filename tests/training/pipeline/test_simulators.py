"""Environments of Gymnasium by their names, in our spaces, and what is odd about them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import gym_environments
import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from slipstream.gymnasium_spaces import action_of, observation_of
from slipstream.names import UnknownEnvironment, is_gymnasium
from slipstream.spaces import Box, Discrete, MultiDiscrete
from slipstream.training.pipeline.simulators import Oddity, Simulator, simulator_options, simulator_spaces

HERE = Path(gym_environments.__file__)


def named(name: str) -> str:
    return f"{HERE}:{name}"


def test_steps_are_those_of_the_environment_itself():
    ours, theirs = Simulator("gym:Pendulum-v1", {"g": 9.0}, 7), gymnasium.make("Pendulum-v1", g=9.0)
    rng = np.random.default_rng(0)
    first, _ = theirs.reset(seed=7)
    np.testing.assert_array_equal(ours.reset(), first)
    for _ in range(3):
        for _ in range(200):
            action = rng.uniform(-2, 2, 1).astype(np.float32)
            observation, reward, terminated, truncated, _ = theirs.step(action)
            got = ours.step(action)
            np.testing.assert_array_equal(got[0], observation.astype(np.float32))
            assert got[1:] == (pytest.approx(reward), terminated, truncated)
        assert got[3]
        np.testing.assert_array_equal(ours.reset(), theirs.reset()[0].astype(np.float32))
    assert ours.limit == 200 and ours.oddities == {}


def test_observations_are_kept_apart():
    simulator = Simulator(named("Countdown"), {}, 0)
    first = simulator.reset()
    second, *_ = simulator.step(np.zeros(1, np.float32))
    assert first[0] == 5.0 and second[0] == 4.0 and first.dtype == np.float32


def test_an_environment_is_found_in_a_file_in_a_module_and_from_a_function():
    for name, steps in ((named("Countdown"), 5), ("gym_environments:Countdown", 5), (named("made_by_a_function"), 2)):
        simulator = Simulator(name, {}, 0)
        simulator.reset()
        count = 1
        while not simulator.step(np.zeros(1, np.float32))[2]:
            count += 1
        assert count == steps and is_gymnasium(name)


def test_a_registered_environment_may_name_the_module_that_registers_it(tmp_path, monkeypatch):
    (tmp_path / "registers_it.py").write_text(
        "import gymnasium\ngymnasium.register('TestCountdown-v0', 'gym_environments:Countdown', max_episode_steps=3)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    simulator = Simulator("gym:registers_it:TestCountdown-v0", {"steps": 9}, 0)
    simulator.reset()
    ends = [simulator.step(np.zeros(1, np.float32))[2:] for _ in range(3)]
    assert ends == [(False, False), (False, False), (False, True)]


def test_a_module_is_found_in_the_current_directory(tmp_path, monkeypatch):
    (tmp_path / "module_right_here.py").write_text("from gym_environments import Countdown\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p])
    assert simulator_spaces("module_right_here:Countdown", {})[0].size == 2


def test_options_are_keyword_arguments_and_a_time_limit():
    simulator = Simulator(named("Countdown"), {"steps": 4, "max_episode_steps": 2}, 0)
    assert simulator.reset()[0] == 4.0 and simulator.limit is None
    simulator.step(np.zeros(1, np.float32))
    assert simulator.step(np.zeros(1, np.float32))[3]
    assert set(simulator_options(named("Countdown"))) == {"steps", "odd", "when", "max_episode_steps"}
    with pytest.raises(ValueError, match=r"Unknown option 'stepz' of .*did you mean 'steps'"):
        Simulator(named("Countdown"), {"stepz": 4}, 0)


def test_dictionaries_are_flattened_as_gymnasium_does_it():
    simulator = Simulator(named("Everything"), {}, 0)
    flat = spaces.flatten(simulator.env.observation_space, simulator.env._see())
    np.testing.assert_allclose(simulator.reset(), flat)
    assert simulator.observation.size == flat.size and simulator.observation.image is None
    assert np.all(simulator.observation.lows <= flat) and np.all(flat <= simulator.observation.highs)


def test_choices_begin_where_the_space_begins():
    simulator = Simulator(named("Everything"), {}, 0)
    assert simulator.action == MultiDiscrete((2, 3))
    simulator.reset()
    simulator.step(np.array([0, 2], np.int32))
    np.testing.assert_array_equal(simulator.env.taken[0], [1, 1])
    space, act = action_of(spaces.Discrete(3, start=4), "x")
    assert space == Discrete(3) and act(np.array([2], np.int32)) == 6
    space, act = action_of(spaces.MultiBinary((2, 2)), "x")
    assert space == MultiDiscrete((2, 2, 2, 2))
    np.testing.assert_array_equal(act(np.array([1, 0, 0, 1], np.int32)), [[1, 0], [0, 1]])


def test_box_actions_have_the_shape_and_the_type_of_the_space():
    bounds = np.array([[1.0, 2.0], [3.0, np.inf]])
    space, act = action_of(spaces.Box(-bounds, bounds, dtype=np.float64), "x")
    assert space == Box(4, (-1.0, -2.0, -3.0, -np.inf), (1.0, 2.0, 3.0, np.inf))
    given = np.arange(4, dtype=np.float32)
    taken = act(given)
    given[:] = 9
    assert taken.dtype == np.float64
    np.testing.assert_array_equal(taken, [[0, 1], [2, 3]])


@pytest.mark.parametrize("first", [False, True])
def test_pictures_stay_pictures_with_their_channels_last(first):
    simulator = Simulator(named("Pixels"), {"first": first}, 0)
    picture = simulator.reset()
    assert simulator.observation == Box(36 * 36 * 2, 0.0, 255.0, image=(36, 36, 2))
    assert picture.dtype == np.uint8 and picture.flags.c_contiguous
    picture = picture.reshape(36, 36, 2)
    assert (picture[3, :, 1] == 100).all() and picture[..., 0].sum() == 36 * 255


def test_stacked_colour_frames_become_channels():
    box, observe = observation_of(spaces.Box(0, 255, (4, 40, 50, 3), np.uint8), "x")
    given = np.random.default_rng(0).integers(0, 256, (4, 40, 50, 3), np.uint8)
    assert box.image == (40, 50, 12)
    np.testing.assert_array_equal(observe(given).reshape(40, 50, 4, 3), given.transpose(1, 2, 0, 3))


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(0, 255, (7, 7, 3), np.uint8),
        spaces.Box(0, 255, (128,), np.uint8),
        spaces.Box(0, 1, (40, 40, 3), np.float32),
    ],
)
def test_small_pictures_and_other_numbers_are_flattened(space):
    box, observe = observation_of(space, "x")
    assert box.image is None and observe(space.sample()).shape == (box.size,)
    assert observe(space.sample()).dtype == np.float32


def test_what_cannot_be_seen_or_done_is_refused_with_its_name_and_the_way_out():
    with pytest.raises(ValueError, match=r"Wordy are Dict.*Text.*path/to/file.py:Class"):
        simulator_spaces(named("Wordy"), {})
    with pytest.raises(ValueError, match=r"Manifold are Dict.*MultiDiscrete.*path/to/file.py:Class"):
        simulator_spaces(named("Manifold"), {})
    with pytest.raises(ValueError, match="Actions of x"):
        action_of(spaces.Box(0, 5, (2,), np.int32), "x")
    with pytest.raises(ValueError, match="nothing can be chosen"):
        action_of(spaces.Box(np.zeros(2, np.float32), np.array([0, 1], np.float32)), "x")


def test_unknown_names_say_the_nearest():
    with pytest.raises(UnknownEnvironment, match="HalfCheetah-v5"):
        simulator_spaces("gym:HalfCheeta-v5", {})
    with pytest.raises(UnknownEnvironment, match="pprint_registry"):
        simulator_spaces("gym:zzzzqqq", {})
    with pytest.raises(UnknownEnvironment, match="no module 'nothing_here'"):
        simulator_spaces("nothing_here:Env", {})
    with pytest.raises(UnknownEnvironment, match="it defines Countdown, "):
        simulator_spaces(named("Countdwn"), {})
    with pytest.raises(ValueError, match=r"neither a gymnasium.Env nor a function"):
        simulator_spaces("collections:OrderedDict", {})
    with pytest.raises(ValueError, match="cannot be made: TypeError"):
        simulator_spaces("gym:Pendulum-v1", {"max_episode_steps": "x"})


def test_what_is_not_finite_is_counted_and_not_passed_on():
    simulator = Simulator(named("Countdown"), {"odd": "nan"}, 0)
    simulator.reset()
    seen = [simulator.step(np.zeros(1, np.float32)) for _ in range(3)]
    assert seen[2][0][0] == seen[1][0][0] == 3.0
    assert seen[2][2:] == (False, True)
    assert simulator.oddities == {"observations not finite": 1}
    simulator = Simulator(named("Countdown"), {"odd": "reward"}, 0)
    simulator.reset()
    assert [simulator.step(np.ones(1, np.float32))[1] for _ in range(4)] == [1.0, 1.0, 0.0, 1.0]
    assert simulator.oddities == {"rewards not finite": 1}


def test_what_is_outside_the_space_is_counted_and_passed_on():
    simulator = Simulator(named("Countdown"), {"odd": "outside"}, 0)
    simulator.reset()
    assert [simulator.step(np.zeros(1, np.float32))[0][0] for _ in range(4)] == [4.0, 3.0, 11.0, 1.0]
    assert simulator.oddities == {"observations outside the space": 1}


@pytest.mark.parametrize(
    ("odd", "said"), [("nan", "feature 0 is nan"), ("outside", "outside 0 .. 10"), ("reward", "inf")]
)
def test_a_strict_simulator_raises_what_it_would_have_counted(odd, said):
    simulator = Simulator(named("Countdown"), {"odd": odd}, 0, strict=True)
    simulator.reset()
    with pytest.raises(Oddity, match=said):
        for _ in range(3):
            simulator.step(np.zeros(1, np.float32))


def test_a_wrong_shape_is_always_an_error():
    simulator = Simulator(named("Countdown"), {"odd": "shape"}, 0)
    simulator.reset()
    with pytest.raises(Oddity, match=r"3 numbers .*has 2"):
        for _ in range(3):
            simulator.step(np.zeros(1, np.float32))


def test_an_atari_game_is_seen_as_is_usual():
    pytest.importorskip("ale_py")
    pytest.importorskip("cv2")
    simulator = Simulator("gym:ALE/Pong-v5", {}, 0)
    assert simulator.observation.image == (84, 84, 4) and simulator.action == Discrete(6)
    pixels = simulator.reset()
    for _ in range(3):
        pixels, *_ = simulator.step(np.array([2], np.int32))
    frames = pixels.reshape(84, 84, 4)
    assert pixels.dtype == np.uint8 and len({frames[..., i].tobytes() for i in range(4)}) > 1
    assert simulator_spaces("gym:ALE/Pong-v5", {"preprocess": False})[0].image == (210, 160, 3)


def test_a_sampler_needs_neither_jax_nor_drjit():
    code = (
        "import sys\n"
        "from slipstream.training.pipeline import numpy_policy, simulators\n"
        "simulators.Simulator('gym:Pendulum-v1', {}, 0).reset()\n"
        "print([m for m in ('jax', 'drjit', 'mujoco', 'tyro', 'PIL', 'matplotlib') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_making_an_environment_says_nothing():
    code = (
        "from slipstream.training.pipeline.simulators import Simulator\nSimulator('gym:HalfCheetah-v5', {}, 0).reset()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "" and done.stderr == ""
