"""What processes take of GPUs, as a driver that is made up tells it."""

import os
import sys
from types import ModuleType, SimpleNamespace

import pytest

from slipstream.training.display import processes
from slipstream.training.pipeline import gpus
from slipstream.training.pipeline.gpus import GpuUse
from slipstream.training.pipeline.trainer import PipelineTrainer

MB = 2**20


class NVMLError(Exception):
    pass


class Driver(ModuleType):
    """Two GPUs as NVML shows them. What is not known to a GPU is an error, as is it that nobody has used it."""

    NVMLError = NVMLError

    def __init__(self):
        super().__init__("pynvml")
        self.devices, self.asked = ["first", "second"], 0
        self.compute: dict[str, dict[int, int | None]] = {"first": {}, "second": {}}
        self.graphics: dict[str, dict[int, int | None]] = {"first": {}}
        self.samples: dict[str, list[tuple[int, int, int]]] = {"first": [], "second": []}
        """Process, microsecond and per cent."""

    def nvmlInit(self):
        if not self.devices:
            raise NVMLError("Driver Not Loaded")

    def nvmlDeviceGetCount(self):
        return len(self.devices)

    def nvmlDeviceGetHandleByIndex(self, index):
        return self.devices[index]

    def nvmlDeviceGetComputeRunningProcesses(self, device):
        self.asked += 1
        return [SimpleNamespace(pid=pid, usedGpuMemory=size) for pid, size in self.compute[device].items()]

    def nvmlDeviceGetGraphicsRunningProcesses(self, device):
        if device not in self.graphics:
            raise NVMLError("Not Supported")
        return [SimpleNamespace(pid=pid, usedGpuMemory=size) for pid, size in self.graphics[device].items()]

    def nvmlDeviceGetProcessUtilization(self, device, since):
        found = [SimpleNamespace(pid=p, timeStamp=t, smUtil=u) for p, t, u in self.samples[device] if t > since]
        if not found:
            raise NVMLError("Not Found")
        return found


@pytest.fixture
def driver(monkeypatch):
    driver = Driver()
    monkeypatch.setitem(sys.modules, "pynvml", driver)
    monkeypatch.setattr(gpus, "ASK", 0.0)
    return driver


def test_use_of_all_gpus_is_added_up_and_only_what_is_new_counts(driver):
    driver.compute = {"first": {10: 300 * MB, 99: MB}, "second": {10: 200 * MB, 11: None}}
    driver.graphics["first"] = {12: 50 * MB}
    driver.samples = {
        "first": [(10, 1000, 40), (99, 1000, 10), (10, 1500, 60)],
        "second": [(10, 700, 100), (11, 800, 20)],
    }
    use, names = GpuUse(), {"learner": 10, "sampler-0": 11, "visualiser": 12, "evaluator": 13}
    assert use.figures(names) == {
        "gpu/learner": pytest.approx(1.5),
        "gpu/sampler-0": pytest.approx(0.2),
        "gpu/visualiser": 0.0,
        "gpu_memory/learner": 500.0,
        "gpu_memory/sampler-0": 0.0,
        "gpu_memory/visualiser": 50.0,
    }
    driver.samples["first"].append((10, 2000, 30))
    assert use.figures(names)["gpu/learner"] == pytest.approx(0.3)
    driver.compute = {"first": {}, "second": {}}
    assert "gpu/learner" not in use.figures(names)


def test_the_driver_is_not_asked_all_the_time(driver, monkeypatch):
    monkeypatch.setattr(gpus, "ASK", 1000.0)
    driver.compute["first"] = {10: MB}
    use = GpuUse()
    assert (
        use.figures({"learner": 10}) == use.figures({"learner": 10}) == {"gpu/learner": 0.0, "gpu_memory/learner": 1.0}
    )
    assert driver.asked == 2, "once for each GPU"


def test_without_a_gpu_or_its_library_there_is_nothing_to_say(driver, monkeypatch):
    driver.devices = []
    assert GpuUse().figures({"learner": 10}) == {}
    monkeypatch.setitem(sys.modules, "pynvml", None)  # importing it fails
    assert GpuUse().figures({"learner": 10}) == {}


def test_the_learner_is_shown_with_what_it_takes_of_a_gpu(driver, pipeline_config):
    driver.compute["first"] = {os.getpid(): 700 * MB}
    driver.samples["first"] = [(os.getpid(), 5, 80)]
    figures = PipelineTrainer(pipeline_config()).crew.figures()
    assert figures["gpu/learner"] == 0.8 and figures["gpu_memory/learner"] == 700.0
    ((name, shown),) = processes(figures)
    assert name == "learner" and shown.endswith(" MB, GPU 80 % 700 MB")
    assert "GPU" not in processes({n: v for n, v in figures.items() if "gpu" not in n})[0][1]
