"""Sensors of forces, read in a step, say what MuJoCo's say."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from robots import converged

from slipstream import physics

XML = """<mujoco><option timestep="0.005" integrator="{integrator}" cone="{cone}"/>
  <default><geom condim="{condim}"/></default><worldbody><geom type="plane" size="5 5 1"/>
  <body name="arm" pos="0.1 0 0.3"><freejoint/><geom type="capsule" fromto="0 0 0 0.4 0 0" size="0.05"/>
   <site name="imu" pos="0.1 0.02 0.03" euler="10 20 30"/><site name="front" pos="0.2 0 0" size="0.15"/>
   <site name="back" type="ellipsoid" size="0.07 0.06 0.09" euler="0 30 0"/>
   <body name="leg" pos="0.4 0 0"><joint axis="0 1 0" damping="0.1"/><geom type="capsule" fromto="0 0 0 0 0 -0.3"
    size="0.03"/><site name="leg" pos="0 0.1 -0.1" euler="50 0 0"/><body name="foot" pos="0 0 -0.3" euler="20 0 0">
    <geom size="0.06" pos="0.02 0 0"/>
    <site name="foot" pos="0.02 0 0" size="0.065" euler="0 0 40"/></body></body></body>
  <body name="ball" pos="0 0 0.5"><freejoint/><geom size="0.07"/><site name="ball" size="0.075"/></body></worldbody>
  <sensor>{sensors}</sensor></mujoco>"""
SENSORS = {
    "touch": ("front", "back", "foot", "ball"),
    "accelerometer": ("imu", "foot"),
    "force": ("leg", "foot"),
    "torque": ("leg", "foot"),
}


def sensor_lines() -> str:
    named = [f'{kind} name="{kind} {site}" site="{site}"' for kind, sites in SENSORS.items() for site in sites]
    clipped = [f'{kind} name="{kind} clipped" site="foot" cutoff="3"' for kind in ("touch", "force")]
    return "".join(f"<{line}/>" for line in named + clipped)


@pytest.mark.parametrize(
    ("integrator", "cone", "condim"), [("Euler", "pyramidal", 3), ("RK4", "pyramidal", 1), ("Euler", "elliptic", 4)]
)
def test_every_number_is_mujocos(integrator, cone, condim):
    xml = XML.format(integrator=integrator, cone=cone, condim=condim, sensors=sensor_lines())
    m = converged(mujoco.MjModel.from_xml_string(xml))
    model, data = physics.load(m), mujoco.MjData(m)
    names = [m.sensor(k).name for k in range(m.nsensor)]
    rng = np.random.default_rng(0)
    felt = np.zeros(len(names))
    for wait in range(10, 90, 8):
        mujoco.mj_resetData(m, data)
        data.qpos[2], data.qpos[8:11] = 0.35, (rng.uniform(0.1, 0.5), 0.0, 0.5)
        data.qvel[:] = 0.3 * rng.normal(size=m.nv)
        mujoco.mj_step(m, data, wait)
        state = physics.make_state(model, data.qpos.tolist(), data.qvel.tolist())
        mujoco.mj_step(m, data, 2)
        found = physics.step(model, state, [], substeps=2, sensors=names).sensed
        assert found == pytest.approx(data.sensordata, abs=1e-6 * (1 + np.abs(data.sensordata).max()))
        felt += [np.abs(data.sensor(name).data).max() > 0.1 for name in names]
    assert felt.min() > 0


def test_what_is_not_computed_is_refused_by_name():
    sensors = '<gyro name="turn" site="imu"/><touch name="flat" site="flat"/>'
    xml = XML.format(integrator="Euler", cone="pyramidal", condim=3, sensors=sensors)
    xml = xml.replace('<site name="imu"', '<site name="flat" type="box" size="1 1 1"/><site name="imu"')
    model = physics.load(xml)
    state = physics.make_state(model, list(model.qpos0), [0.0] * model.nv)
    for name, reason in (("turn", "<gyro name='turn'>"), ("flat", "type='box'"), ("eye", "no sensor named 'eye'")):
        with pytest.raises(physics.ModelError, match=reason):
            physics.step(model, state, [], sensors=[name])
