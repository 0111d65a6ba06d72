"""Worlds as named arrays, and back."""

import numpy as np
import pytest
from small_worlds import Drift, Leaving, Masked

from slipstream.envs import Worlds, make

every_backend = pytest.mark.parametrize("backend", ["llvm", "scalar"])


@every_backend
def test_arrays_are_named_by_field_group_and_number(backend):
    saved = set(Worlds(Leaving(), 2, backend=backend).save())
    assert {n for n in saved if n.startswith("state/")} == {
        "state/alive/walker",
        "state/alive/watcher",
        "state/place/0",
        "state/place/1",
    }
    assert {"clock/step", "clock/return_sum/walker", "clock/report_sum/left", "age", "samples"} <= saved
    robot = make("hopper", num_worlds=1, backend=backend).save()
    assert {"state/qpos/0", "state/qpos/3", "state/start"} <= set(robot)


@every_backend
def test_the_step_counter_exists_once(backend):
    worlds = Worlds(Masked(), 3, backend=backend)
    assert [name for name in worlds.save() if "step" in name] == ["clock/step"]
    worlds.set_state(step=[4, 48, 49])
    assert worlds.get_state()["step"].tolist() == [4, 48, 49]
    np.testing.assert_array_equal(worlds.observe()[0], [4, 48, 49])
    step = worlds.step(worlds.sample_actions())
    np.testing.assert_array_equal(step.final_observation[0], [5, 49, 50])
    np.testing.assert_array_equal(step.observation[0], [5, 49, 0])
    assert worlds.get_state()["step"].tolist() == [5, 49, 0]


@every_backend
def test_a_field_that_copies_the_step_counter_is_a_field_of_its_own(backend):
    worlds = Worlds(Copies(), 3, backend=backend)
    for _ in range(4):
        worlds.step(worlds.sample_actions())
    assert worlds.get_state()["last"].tolist() == [4, 4, 4]
    assert worlds.engine.recordings <= 1


class Copies(Masked):
    """Keeps the number of its last step."""

    def step(self, state, action, rng):
        state, reward, terminated = super().step(state, action, rng)
        state.last = state.step
        return state, reward, terminated


@pytest.mark.parametrize(("source", "target"), [("llvm", "scalar"), ("scalar", "llvm")])
def test_worlds_go_on_from_what_another_backend_saved(source, target):
    worlds, other = (Worlds(Leaving(), 3, seed, backend) for seed, backend in ((1, source), (1, target)))
    for _ in range(6):
        worlds.step(worlds.sample_actions())
    other.restore(worlds.save())
    for name, values in worlds.save().items():
        np.testing.assert_allclose(other.save()[name], values, rtol=1e-6)
    for a, b in zip(*(w.step(w.sample_actions()).observation.values() for w in (worlds, other))):
        np.testing.assert_allclose(a, b, rtol=1e-5)


@every_backend
def test_what_does_not_fit_is_named_and_nothing_is_changed(backend):
    worlds = Worlds(Leaving(), 3, backend=backend)
    saved = worlds.save()
    for wrong, message in (
        (Worlds(Drift(), 3, backend=backend).save(), "no array 'state/alive/walker'"),
        (Worlds(Leaving(), 4, backend=backend).save(), r"'state/alive/walker' .* has shape \[12\], expected \[9\]"),
        ({**saved, "state/hat": np.zeros(3)}, "an array 'state/hat' that this world has not"),
        ({n: a for n, a in saved.items() if n != "age"}, "no array 'age'"),
    ):
        with pytest.raises(ValueError, match=message):
            worlds.restore(wrong)
    for name, values in worlds.save().items():
        np.testing.assert_array_equal(values, saved[name])
