"""Motion that can be written down: free fall, pendulum, spring, momentum and energy."""

from __future__ import annotations

import math

import numpy as np
import pytest

from slipstream import physics

PENDULUM = """<mujoco><option timestep="0.002" integrator="{integrator}"/><worldbody>
  <body pos="0 0 1"><joint name="j" axis="0 1 0"/>
    <inertial pos="0 0 -0.5" mass="2" diaginertia="1e-6 1e-6 1e-6"/></body>
</worldbody></mujoco>"""
SPRING = """<mujoco><option timestep="0.001" integrator="RK4" gravity="0 0 0"/><worldbody>
  <body><joint type="slide" axis="1 0 0" stiffness="50" springref="0.25" damping="0.6"/>
    <inertial pos="0 0 0" mass="2" diaginertia="1 1 1"/></body></worldbody></mujoco>"""
TUMBLING = """<mujoco><option timestep="0.002" integrator="RK4" gravity="0 0 0"/><worldbody>
  <body><freejoint/><inertial pos="0.1 0 0" mass="2" diaginertia="0.1 0.25 0.3"/>
    <body pos="0 0 0.3"><joint type="ball"/>
      <inertial pos="0 0 0.2" mass="1" diaginertia="0.05 0.06 0.02"/></body>
  </body></worldbody></mujoco>"""


def run(xml: str, qpos, qvel, steps: int, **options) -> tuple[np.ndarray, np.ndarray]:
    batch = physics.Batch(physics.load(xml, **options), 1, substeps=steps, double=True)
    batch.set_state(np.array(qpos, float)[:, None], np.array(qvel, float)[:, None])
    batch.step([])
    q, v, _ = batch.get_state()
    return q[:, 0], v[:, 0]


def test_free_fall():
    xml = """<mujoco><option timestep="0.01"/><worldbody><body><freejoint/>
      <geom size="0.1"/></body></worldbody></mujoco>"""
    q, v = run(xml, [1, 2, 3, 1, 0, 0, 0], [0.5, 0, 4, 0, 0, 0], 100)
    assert v[2] == pytest.approx(4 - 9.81, abs=1e-9)
    # Semi-implicit Euler falls h/2 g t further than the parabola.
    assert q[:3] == pytest.approx([1.5, 2, 3 + 4 - 0.5 * 9.81 - 0.005 * 9.81], abs=1e-9)


def test_small_swings_of_a_pendulum():
    amplitude, length = 0.01, 0.5
    inertia = 2 * length**2 + 1e-6
    frequency = math.sqrt(2 * 9.81 * length / inertia)
    q, _ = run(PENDULUM.format(integrator="RK4"), [amplitude], [0], 1000)
    assert q[0] == pytest.approx(amplitude * math.cos(frequency * 2.0), abs=2e-6)


def test_a_large_swing_conserves_energy():
    q, v = run(PENDULUM.format(integrator="RK4"), [2.0], [0.5], 2000)
    energy = [0.5 * (2 * 0.25 + 1e-6) * w**2 - 2 * 9.81 * 0.5 * math.cos(a) for a, w in ((2.0, 0.5), (q[0], v[0]))]
    assert energy[1] == pytest.approx(energy[0], abs=1e-6)


def test_damped_spring():
    omega, decay = math.sqrt(50 / 2 - (0.6 / 4) ** 2), 0.6 / 4
    q, _ = run(SPRING, [0.5], [0], 1000)
    envelope = math.exp(-decay)
    expected = 0.25 + 0.25 * envelope * (math.cos(omega) + decay / omega * math.sin(omega))
    assert q[0] == pytest.approx(expected, abs=1e-8)


def test_a_tumbling_body_keeps_momentum_and_energy():
    import mujoco

    m = mujoco.MjModel.from_xml_string(TUMBLING)
    start = np.array([0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0]), np.array([0.3, -0.2, 0.1, 2, -3, 1, 0.5, 1, -2])

    def momenta(q, v):
        data = mujoco.MjData(m)
        data.qpos[:], data.qvel[:] = q, v
        mujoco.mj_forward(m, data)
        mujoco.mj_subtreeVel(m, data)
        mujoco.mj_energyVel(m, data)
        return np.array([*data.subtree_linvel[1], *data.subtree_angmom[1], data.energy[1]])

    assert momenta(*run(TUMBLING, *start, 1000)) == pytest.approx(momenta(*start), abs=2e-5)
