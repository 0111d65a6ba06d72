"""What is in `deploy/` is whole: the fields that KubeRay asks for, versions that agree, commands that exist."""

import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import tyro
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from slipstream.cli.tournament import Tournament

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
FILES = sorted(DEPLOY.glob("*.yaml"))
KINDS = {
    "RayCluster": "ray.io/v1",
    "RayJob": "ray.io/v1",
    "Secret": "v1",
    "Service": "v1",
    "ConfigMap": "v1",
    "PersistentVolumeClaim": "v1",
    "StatefulSet": "apps/v1",
}


def resources() -> list[dict]:
    return [r for file in FILES for r in yaml.safe_load_all(file.read_text())]


def of_kind(kind: str) -> list[dict]:
    return [r for r in resources() if r["kind"] == kind]


def clusters() -> list[dict]:
    return [r["spec"] for r in of_kind("RayCluster")] + [r["spec"]["rayClusterSpec"] for r in of_kind("RayJob")]


def groups(cluster: dict) -> list[dict]:
    return [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]


def locked(name: str) -> str:
    return re.search(rf"^{name}==([\w.]+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE)[1]


def test_every_resource_has_its_kind_version_and_name():
    assert {r["kind"] for r in resources()} == set(KINDS)
    for r in resources():
        assert r["apiVersion"] == KINDS[r["kind"]] and re.fullmatch(r"[a-z0-9-]+", r["metadata"]["name"])
    names = [(r["kind"], r["metadata"]["name"]) for r in resources()]
    assert len(names) == len(set(names))


def test_clusters_have_what_kuberay_asks_for():
    assert len(clusters()) == 2
    for cluster in clusters():
        assert cluster["rayVersion"] == locked("ray")
        for group in groups(cluster):
            assert isinstance(group["rayStartParams"], dict)
            assert all(isinstance(value, str) for value in group["rayStartParams"].values())
            (container,) = group["template"]["spec"]["containers"]
            assert {"name", "image", "resources"} <= set(container)
        for group in cluster["workerGroupSpecs"]:
            assert 0 <= group["minReplicas"] <= group["replicas"] <= group["maxReplicas"] and group["groupName"]


def test_what_is_mounted_and_read_is_there():
    claims = {r["metadata"]["name"] for r in of_kind("PersistentVolumeClaim")}
    maps = {r["metadata"]["name"] for r in of_kind("ConfigMap")}
    (secret,) = of_kind("Secret")
    for cluster in clusters():
        for group in groups(cluster):
            spec = group["template"]["spec"]
            volumes = {v["name"]: v for v in spec["volumes"]}
            (container,) = spec["containers"]
            assert {m["name"] for m in container["volumeMounts"]} <= set(volumes)
            for volume in volumes.values():
                assert volume.get("persistentVolumeClaim", {}).get("claimName") in {*claims, None}
                assert volume.get("configMap", {}).get("name") in {*maps, None}
            for variable in container["env"]:
                key = variable["valueFrom"]["secretKeyRef"]
                assert key["name"] == secret["metadata"]["name"] and key["key"] in secret["stringData"]


def test_the_job_runs_a_tournament_that_the_command_understands():
    (script,) = of_kind("ConfigMap")[0]["data"].values()
    commands = re.findall(r"exec slipstream tournament (.+)", script.replace("\\\n", " "))
    assert len(commands) == 2
    for command in commands:
        options = tyro.cli(Tournament, args=shlex.split(command))
        assert options.address == "auto"
    assert options.env == "hopper" and options.pods == 8 and options.database
    subprocess.run(["sh", "-n"], input=script, text=True, check=True)


def test_pods_fit_on_the_machines_of_the_clusters():
    for cluster in clusters():
        for group in cluster["workerGroupSpecs"]:
            (container,) = group["template"]["spec"]["containers"]
            assert float(container["resources"]["limits"]["cpu"]) >= 1.0  # --cpus-per-pod 1


def instructions() -> list[tuple[str, str]]:
    """Of the container file, without comments."""
    text = re.sub(r"^#.*\n", "", (DEPLOY / "Containerfile").read_text(), flags=re.MULTILINE)
    lines = text.replace("\\\n", " ").splitlines()
    return [(line.split()[0], line.partition(" ")[2].strip()) for line in lines if line.strip()]


def test_the_container_file_is_whole():
    found = instructions()
    assert {kind for kind, _ in found} <= {"FROM", "RUN", "COPY", "WORKDIR", "USER", "ENV"} and found[0][0] == "FROM"
    version = re.search(r"python:(\d\.\d+)", found[0][1])[1]
    assert version in SpecifierSet(PROJECT["requires-python"])
    for kind, rest in found:
        if kind == "COPY":
            assert all((ROOT / source).exists() for source in rest.split()[:-1])
        if kind == "RUN":
            subprocess.run(["sh", "-n"], input=rest, text=True, check=True)
    (install,) = [rest for kind, rest in found if kind == "RUN" and "pip install" in rest]
    extras = re.search(r"\.\[([\w,]+)\]", install)[1].split(",")
    assert set(extras) <= set(PROJECT["optional-dependencies"]) and "cluster" in extras
    others = [Requirement(word) for word in shlex.split(install) if word.startswith("psycopg")]
    assert others and locked("psycopg")


@pytest.mark.slow
def test_the_commands_of_the_container_run_in_an_empty_environment(tmp_path):
    """All but those that need another machine: copying, installing, and asking what was installed."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    work = tmp_path / "work"
    work.mkdir()
    environment = {"PATH": f"{tmp_path}/venv/bin:/usr/bin:/bin", "HOME": str(tmp_path)}
    for kind, rest in instructions():
        if kind == "COPY":
            *sources, target = rest.split()
            for source in sources:
                copy = shutil.copytree if (ROOT / source).is_dir() else shutil.copy
                copy(ROOT / source, work / target / (source if copy is shutil.copy else ""), **_onto(copy))
        elif kind == "RUN" and not rest.startswith(("apt-get", "useradd")):
            subprocess.run(["sh", "-c", rest], cwd=work, env=environment, check=True)


def _onto(copy) -> dict:
    return {"dirs_exist_ok": True} if copy is shutil.copytree else {}
