"""Every form of a policy does what the policy does."""

import ctypes
import shutil
import subprocess
import sys

import numpy as np
import onnxruntime
import pytest
from policies_to_export import KINDS, made, observations, outcomes

from slipstream.training.export.c_file import c_files
from slipstream.training.export.numpy_file import numpy_file
from slipstream.training.export.numpy_runtime import NumpyPolicy
from slipstream.training.export.onnx_file import MEMORIES, onnx_file
from slipstream.training.export.plan import plan_of

LANES = 7


@pytest.fixture(scope="module", params=KINDS)
def case(request):
    policy, config, arrays = made(request.param)
    return request.param, policy, plan_of(config, policy.observation_space, policy.action_space, arrays)


def in_numpy(plan, seen, noise=None):
    policy = NumpyPolicy(plan.to_json(), plan.arrays)
    explore = noise is not None
    return [policy.act(seen * np.float32(1.0 - 0.2 * i), explore=explore, noise=noise) for i in range(3)]


def in_onnx(plan, seen, noise=None):
    session = onnxruntime.InferenceSession(onnx_file(plan, sampling=noise is not None, doc="test"))
    carried = {name: np.zeros((seen.shape[1], n), np.float32) for name, n in zip(MEMORIES, plan.memory)}
    given = {} if noise is None else {"noise": noise.T.copy()}
    found = []
    for i in range(3):
        names = [o.name for o in session.get_outputs()]
        out = session.run(None, {"observation": (seen * np.float32(1.0 - 0.2 * i)).T.copy(), **carried, **given})
        results = dict(zip(names, out))
        carried = {name: results[f"next_{name}"] for name in carried}
        found.append(results["action"].T)
    return found


def in_c(plan, seen, folder, noise=None):
    header, source = c_files(plan, "A policy.")
    (folder / "policy.h").write_text(header)
    (folder / "policy.c").write_text(source)
    flags = ["-std=c99", "-O2", "-Wall", "-Wextra", "-Werror", "-pedantic", "-shared", "-fPIC"]
    subprocess.run(["cc", *flags, "policy.c", "-o", "policy.so", "-lm"], cwd=folder, check=True)
    library = ctypes.CDLL(str(folder / "policy.so"))
    real = plan.head["noise"] == "normal"
    kind, pointer = (np.float32, ctypes.c_float) if real else (np.int32, ctypes.c_int)

    def at(array, of=ctypes.c_float):
        return None if array is None else array.ctypes.data_as(ctypes.POINTER(of))

    found = [np.zeros((plan.action.size, seen.shape[1]), kind) for _ in range(3)]
    for lane in range(seen.shape[1]):
        memory = np.ones(max(sum(plan.memory), 1), np.float32)
        library.policy_reset(at(memory))
        drawn = None if noise is None else noise[:, lane].copy()
        for i in range(3):
            action = np.zeros(plan.action.size, kind)
            x = (seen[:, lane] * np.float32(1.0 - 0.2 * i)).copy()
            library.policy_act(at(x), at(memory), at(drawn), None, at(action, pointer))
            found[i][:, lane] = action
    return found


def same(one, other):
    one, other = (np.asarray(x).reshape(-1, LANES) for x in (one, other))
    np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-5)


def noise_for(plan):
    rng = np.random.default_rng(3)
    shape = (plan.noises, LANES)
    return (rng.normal(size=shape) if plan.head["noise"] == "normal" else rng.random(shape)).astype(np.float32)


def test_in_numpy_it_does_the_same(case):
    kind, policy, plan = case
    seen = observations(kind, LANES)
    for one, other in zip(outcomes(policy, seen), in_numpy(plan, seen), strict=True):
        same(one, other)


def test_in_onnx_it_does_the_same(case):
    kind, policy, plan = case
    seen = observations(kind, LANES)
    for one, other in zip(outcomes(policy, seen), in_onnx(plan, seen), strict=True):
        same(one, other)


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_in_c_it_does_the_same(case, tmp_path):
    kind, policy, plan = case
    seen = observations(kind, LANES)
    for one, other in zip(outcomes(policy, seen), in_c(plan, seen, tmp_path), strict=True):
        same(one, other)


def test_given_the_same_noise_all_forms_draw_the_same_action(case, tmp_path):
    kind, _, plan = case
    seen, noise = observations(kind, LANES), noise_for(plan)
    drawn = in_numpy(plan, seen, noise)
    for one, other in zip(drawn, in_onnx(plan, seen, noise), strict=True):
        same(one, other)
    if shutil.which("cc") is not None:
        for one, other in zip(drawn, in_c(plan, seen, tmp_path, noise), strict=True):
            same(one, other)


@pytest.mark.parametrize("kind", ["ppo several choices", "ppo arm", "sac", "td3", "dqn"])
def test_exploring_draws_as_the_policy_does(kind):
    policy, config, arrays = made(kind)
    plan = plan_of(config, policy.observation_space, policy.action_space, arrays)
    seen = np.repeat(observations(kind, 1, seed=5), 20_000, axis=1)
    ours = np.asarray(policy.act(seen, explore=True)).reshape(-1, 20_000)
    theirs = NumpyPolicy(plan.to_json(), plan.arrays).act(seen, explore=True).reshape(-1, 20_000)
    assert ours.std() > 0.05
    np.testing.assert_allclose(theirs.mean(axis=1), ours.mean(axis=1), atol=0.03)
    np.testing.assert_allclose(theirs.std(axis=1), ours.std(axis=1), atol=0.03)


def test_a_choice_that_is_not_allowed_is_never_taken(tmp_path):
    policy, config, arrays = made("ppo choices")
    plan = plan_of(config, policy.observation_space, policy.action_space, arrays)
    seen = observations("ppo choices", LANES)
    best = policy.act(seen)
    mask = np.arange(3)[:, None] != best
    masked = NumpyPolicy(plan.to_json(), plan.arrays).act(seen, action_mask=mask)
    np.testing.assert_array_equal(masked, policy.act(seen, action_mask=mask))
    assert (masked != best).all()


def test_the_file_for_numpy_stands_alone(tmp_path):
    policy, config, arrays = made("ppo gru")
    text = numpy_file(plan_of(config, policy.observation_space, policy.action_space, arrays))
    (tmp_path / "policy.py").write_text(text)
    seen = observations("ppo gru", LANES)
    np.save(tmp_path / "seen.npy", seen)
    code = (
        "import sys, numpy as np, policy\n"
        "np.save('action.npy', policy.act(np.load('seen.npy')))\n"
        "one = policy.reset() or policy.act(np.load('seen.npy')[:, 2])\n"
        "np.save('one.npy', one)\n"
        "assert not {'slipstream', 'jax', 'drjit', 'onnx'} & set(sys.modules), sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, env={"PATH": ""})
    policy.reset()
    same(policy.act(seen), np.load(tmp_path / "action.npy"))
    np.testing.assert_allclose(np.load(tmp_path / "one.npy"), np.load(tmp_path / "action.npy")[:, 2], rtol=1e-5)


def test_a_network_of_the_users_own_is_refused():
    from dataclasses import replace

    policy, config, arrays = made("ppo arm")
    config = replace(config, network="somewhere:Net")
    with pytest.raises(ValueError, match="somewhere:Net is code of your own"):
        plan_of(config, policy.observation_space, policy.action_space, arrays)
