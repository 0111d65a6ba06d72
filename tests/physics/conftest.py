import sys
from pathlib import Path

import mujoco

sys.path.insert(0, str(Path(__file__).parent))
# MuJoCo would write a log file into the working directory.
mujoco.set_mju_user_warning(lambda message: None)
