"""Sensors say what MuJoCo's say."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from robots import converged, visited_states

from slipstream import physics

KINDS = {
    "site": "gyro velocimeter accelerometer",
    "objtype='site' objname": "framepos framequat framexaxis frameyaxis framezaxis framelinvel frameangvel",
    "objtype='body' objname": "framepos framequat framelinvel frameangvel",
    "objtype='xbody' objname": "framepos framequat framelinvel frameangvel",
    "objtype='geom' objname": "framepos framequat",
}
OTHERS = """<jointpos name="jp" joint="knee"/><jointvel name="jv" joint="knee"/><ballquat name="bq" joint="hip"/>
  <ballangvel name="bv" joint="hip"/><tendonpos name="tp" tendon="cord"/><tendonvel name="tv" tendon="cord"/>
  <actuatorpos name="ap" actuator="motor"/><actuatorvel name="av" actuator="motor"/>
  <subtreecom name="sc" body="shin"/><subtreelinvel name="sv" body="shin"/><subtreelinvel name="all" body="imu"/>
  <actuatorfrc name="af" actuator="motor"/><gyro name="clipped" site="imu" cutoff="0.5"/>"""
XML = """<mujoco><worldbody><geom type="plane" size="5 5 1"/><body name="imu" pos="0 0 0.5"><freejoint/>
  <geom name="imu" type="box" size="0.2 0.1 0.05" euler="10 20 30" pos="0.1 0 0"/><site name="imu" pos="0.05 0.02 0.1"
  euler="40 10 -20"/><body pos="0.2 0 0"><joint name="hip" type="ball"/><geom type="capsule" fromto="0 0 0 0 0 -0.2"
  size="0.03"/><body name="shin" pos="0 0 -0.2"><joint name="knee" axis="0 1 0"/><geom type="capsule"
  fromto="0 0 0 0.1 0 -0.2" size="0.02"/><body name="toe" pos="0.1 0 -0.2"><geom size="0.03"/></body></body></body>
  </body></worldbody><tendon><fixed name="cord"><joint joint="knee" coef="0.3"/></fixed></tendon><actuator><general
  name="motor" joint="knee" gear="3" gainprm="2" biastype="affine" biasprm="0.1 -0.3 -0.2" dyntype="filter"
  dynprm="0.1"/></actuator><sensor>{sensors}</sensor></mujoco>"""


def test_every_number_is_mujocos():
    named = [f'<{kind} name="{kind} {at}" {at}="imu"/>' for at, kinds in KINDS.items() for kind in kinds.split()]
    xml = XML.format(sensors="".join(named).replace("\"site'", '"').replace('objname="', 'objname="') + OTHERS)
    m = converged(mujoco.MjModel.from_xml_string(xml))
    model, data = physics.load(m), mujoco.MjData(m)
    states = visited_states(m, 20, every=30)
    rng = np.random.default_rng(0)
    for qpos, qvel in zip(states.qpos, states.qvel):
        data.qpos[:], data.qvel[:], data.act[:], data.ctrl[:] = qpos, qvel, rng.normal(size=1), rng.normal(size=1)
        mujoco.mj_forward(m, data)
        state = (data.qpos, data.qvel, data.qacc, data.ctrl, data.act)
        for k in range(m.nsensor):
            found = physics.read_sensor(model, m.sensor(k).name, *(part.tolist() for part in state))
            expected = data.sensordata[m.sensor_adr[k] :][: m.sensor_dim[k]]
            if m.sensor_type[k] == int(mujoco.mjtSensor.mjSENS_FRAMEQUAT):
                expected = expected * np.sign(np.dot(found, expected))
            assert found == pytest.approx(expected, abs=1e-9 * (1 + np.abs(expected).max())), m.sensor(k).name


def test_what_is_not_computed_is_refused_by_name():
    model = physics.load(XML.format(sensors='<rangefinder name="ray" site="imu"/>'))
    with pytest.raises(physics.ModelError, match="<rangefinder name='ray'>"):
        physics.read_sensor(model, "ray", [0.0], [0.0])
    with pytest.raises(physics.ModelError, match="no sensor named 'eye'; it has: ray"):
        physics.read_sensor(model, "eye", [0.0], [0.0])
