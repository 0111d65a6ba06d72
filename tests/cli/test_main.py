"""The command as a whole: exit codes, help, and words for what makes no sense."""

import importlib.util
import json
import subprocess
import sys

import pytest

from slipstream import __version__
from slipstream.cli.main import BAD_INPUT, COMMANDS, OK, main

AVAILABLE = [
    name
    for name, (where, _) in COMMANDS.items()
    if importlib.util.find_spec(f"slipstream.cli.{where.partition(':')[0]}")
]


def call(*arguments: str) -> int:
    """The exit code, whichever way it comes."""
    try:
        return main(list(arguments))
    except SystemExit as exit:
        return exit.code or 0


@pytest.mark.parametrize("name", AVAILABLE)
def test_every_command_explains_itself(capsys, name):
    assert call(name, "--help") == OK
    out = capsys.readouterr().out
    assert f"usage: slipstream {name}" in out and "--help" in out


def test_help_lists_all_commands(capsys):
    assert call("--help") == OK
    out = capsys.readouterr().out
    assert all(f"\n  {name} " in out for name in COMMANDS)


def test_no_command_is_bad_input_but_shows_the_commands(capsys):
    assert call() == BAD_INPUT
    assert "commands:" in capsys.readouterr().out


def test_the_version_is_printed(capsys):
    assert call("--version") == OK
    assert capsys.readouterr().out.strip() == __version__


def test_an_unknown_command_is_answered_with_the_nearest(capsys):
    assert call("trian") == BAD_INPUT
    assert "there is no command 'trian'. Did you mean 'train'?" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["doctor", "train cartpole", "bench cartpole", "eval run", "plot run"])
def test_an_unknown_option_is_bad_input(capsys, command):
    assert call(*command.split(), "--nonsense") == BAD_INPUT
    assert "--nonsense" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("train",), "Name a world to train in"),
        (("train", "cartpol"), "Unknown environment 'cartpol': did you mean 'cartpole'"),
        (("train", "nothing.py:World"), "There is no file nothing.py"),
        (("train", "tag-gridworld", "--option", "num_tager=3"), "Unknown option 'num_tager' of tag-gridworld: did you"),
        (("train", "cartpole", "--option", "gravity=3"), "Unknown option 'gravity' of cartpole: it has none"),
        (("train", "cartpole", "--option", "gravity"), "--option must look like name=value"),
        (("train", "cartpole", "--set", "learning_rat=1"), "Unknown ppo setting 'learning_rat': did you mean 'learni"),
        (("train", "cartpole", "--set", "learning_rate=fast"), "learning_rate must be a number, got 'fast'"),
        (("train", "cartpole", "--set", "learning_rate=-1"), "learning_rate must be positive, got -1.0"),
        (("train", "cartpole", "--set", "epochs=true"), "epochs must be a whole number, got True"),
        (("train", "cartpole", "--set", "hidden=wide"), "hidden must be a list of whole numbers, got 'wide'"),
        (("train", "cartpole", "--set", "hidden=[8, 2.5]"), "hidden must be a list of whole numbers, got [8, 2.5]"),
        (("train", "cartpole", "--set", "activation=sigmoid"), "activation must be one of"),
        (("train", "cartpole", "--set", "dog.epochs=1"), "There is no policy 'dog'; the policies are cart"),
        (("train", "cartpole", "--freeze", "dog"), "There is no policy 'dog'; the policies are cart"),
        (("train", "cartpole", "--load", "dog=runs/old"), "There is no policy 'dog'; the policies are cart"),
        (("train", "cartpole", "--policy", "all=dog"), "the groups are cart"),
        (("train", "cartpole", "--load", "cart=nowhere"), "There is no run directory nowhere"),
        (("train", "cartpole", "--worlds", "0"), "num_worlds must be a positive whole number, got 0"),
        (("train", "cartpole", "--steps", "-5"), "total_steps must be a positive whole number, got -5"),
        (("train", "cartpole", "--rollout", "0"), "rollout_length must be a positive"),
        (("train", "cartpole", "--evaluate-every", "0"), "evaluate_every must be a positive whole number"),
        (("train", "--resume", "nowhere"), "There is no run directory nowhere"),
        (("train", "cartpole", "--resume", "nowhere"), "a world cannot be given beside it"),
        (("train", "--config", "nowhere.json"), "Could not read nowhere.json: No such file"),
        (("eval", "nowhere"), "There is no run directory nowhere"),
        (("eval", "nowhere", "--episodes", "0"), "--episodes must be at least 1"),
        (("plot", "nowhere"), "There is no run directory nowhere"),
        (("bench", "cartpol"), "did you mean 'cartpole'"),
        (("bench", "cartpole", "--seconds", "0"), "--seconds must be positive"),
        (("bench", "cartpole", "--worlds", "-1"), "num_worlds must be a positive whole number"),
        (("bench", "cartpole", "--threads", "0"), "number of threads must be at least 1"),
        (("bench", "cartpole", "--backend", "tpu"), "Unknown backend 'tpu'"),
        (("envs", "pendulm"), "did you mean 'pendulum'"),
    ],
)
def test_what_makes_no_sense_gets_one_clear_line(capsys, monkeypatch, tmp_path, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert call(*arguments) == BAD_INPUT
    err = capsys.readouterr().err
    assert message in err and err.startswith(f"slipstream {arguments[0]}: ") and "Traceback" not in err
    assert list(tmp_path.iterdir()) == [], "nothing is left behind"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "config.json is not a training configuration: Expecting"),
        ("[]", "A configuration must be an object, got []"),
        ("{}", "env is missing"),
        ('{"env": "cartpole", "polices": {}}', "Unknown training setting 'polices': did you mean 'policies'"),
        ('{"env": "cartpole", "policies": {"a": {}}}', "Policy 'a': groups is missing"),
        ('{"env": "cartpole", "policies": {}}', "needs at least one policy"),
        (
            '{"env": "cartpole", "seed": "x", "policies": {"a": {"groups": ["cart"]}}}',
            "seed must be a whole number, got 'x'",
        ),
        ('{"env": "cartpole", "report_every": "1s", "policies": {"a": {"groups": ["cart"]}}}', "must be a number"),
        ('{"env": "cartpole", "policies": {"a": {"groups": ["cart"], "algo": "pp"}}}', "Unknown algorithm 'pp': did"),
    ],
)
def test_a_configuration_file_that_makes_no_sense_is_explained(capsys, monkeypatch, tmp_path, content, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.json").write_text(content)
    assert call("train", "--config", "config.json") == BAD_INPUT
    assert message in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["config.json"]


def test_doctor_tells_programs_what_it_found(capsys):
    assert call("doctor", "--json") == OK
    found = json.loads(capsys.readouterr().out)
    assert found["ready"] is True and found["default_backend"] in ("llvm", "cuda")
    assert {"backends", "llvm", "threads", "jax_devices", "packages"} <= set(found)


def test_doctor_tells_people_what_it_found(capsys):
    assert call("doctor") == OK
    assert "backend llvm" in capsys.readouterr().out


def test_envs_lists_every_world_with_its_spaces(capsys):
    from slipstream.envs.registry import NAMES

    assert call("envs", "--json") == OK
    rows = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in rows] == list(NAMES)
    assert all(row["summary"] and row["groups"] for row in rows)


def test_asking_for_help_does_not_wait_for_jax():
    code = "import sys; from slipstream.cli.main import main; main(['--help']); print('jax' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"


def test_a_reader_who_has_seen_enough_is_no_error():
    command = [sys.executable, "-m", "slipstream.cli.main", "train", "--help"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b"" and process.wait() == OK
