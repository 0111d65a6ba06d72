"""`slipstream train`, `eval`, `plot` and `bench` on a tiny run, in this process."""

import json

import pytest

from slipstream.cli.main import main
from slipstream.runs.directory import RunDirectory

TINY = ["--worlds", "4", "--rollout", "4", "--steps", "64", "--set", "hidden=[8]", "--set", "epochs=1"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("cli") / "run"
    assert main(["train", "cartpole", *TINY, "--seed", "5", "--run", str(path), "--quiet"]) == 0
    return str(path)


def strictly(text: str):
    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


def test_what_was_asked_for_is_in_the_configuration(run):
    config = RunDirectory.open(run).config()
    assert (config["env"], config["seed"]) == ("cartpole", 5)
    driver = config["driver"]
    assert (driver["kind"], driver["num_worlds"], driver["rollout_length"]) == ("fused", 4, 4)
    settings = config["policies"]["cart"]["settings"]
    assert settings["hidden"] == [8] and settings["epochs"] == 1
    assert settings["discount"] == 0.98, "what was not asked for is the preset's"


def test_a_quiet_run_says_nothing(run, capsys):
    assert main(["train", "--resume", run, "--quiet"]) == 0
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")


def test_train_tells_programs_how_it_ended_and_people_how_to_go_on(run, capsys):
    assert main(["train", "--resume", run, "--steps", "80", "--json"]) == 0
    result = strictly(capsys.readouterr().out)
    assert result["run"] == run and result["step"] == 80 and result["finished"] is True
    assert main(["train", "--resume", run, "--steps", "96"]) == 0
    captured = capsys.readouterr()
    assert "Finished after 96 steps" in captured.out and f"Go on with: slipstream eval {run}" in captured.out
    assert "steps/s" in captured.err, "plain lines where there is no terminal"


def test_a_run_directory_is_not_trained_over(run, capsys):
    assert main(["train", "cartpole", *TINY, "--run", run]) == 2
    assert f"already holds a run. Continue it with --resume {run}" in capsys.readouterr().err


def test_resuming_keeps_the_settings(run, capsys):
    assert main(["train", "--resume", run, "--config", "x.json"]) == 2
    assert "--config cannot be given beside it" in capsys.readouterr().err
    assert main(["train", "--resume", run, "--checkpoint", "step-1"]) == 2
    assert "has no checkpoint 'step-1'; it has step-" in capsys.readouterr().err


@pytest.mark.parametrize("episodes", ["1", "5"])
def test_eval_tells_programs_means_and_errors(run, capsys, episodes):
    assert main(["eval", run, "--episodes", episodes, "--json"]) == 0
    result = strictly(capsys.readouterr().out)
    assert result["episodes"] == int(episodes) and result["env"] == "cartpole"
    score = result["groups"]["cart"]
    assert score["mean"] == result["length"] >= 1, "cartpole pays 1 per step"
    assert (score["standard_error"] is None) == (episodes == "1")


def test_eval_shows_people_a_table(run, capsys):
    assert main(["eval", run, "--episodes", "5", "--explore"]) == 0
    out = capsys.readouterr().out
    assert "cart" in out and "Episode length" in out


def test_eval_can_play_in_a_world_with_other_options(run, capsys, tmp_path):
    game = str(tmp_path / "tag")
    assert main(["train", "tag-gridworld", *TINY, "--run", game, "--quiet"]) == 0
    large = ["--option", "episode_length=9", "--option", "grid_length=40"]
    assert main(["eval", game, "--checkpoint", "latest", "--episodes", "5", *large, "--json"]) == 0
    assert strictly(capsys.readouterr().out)["length"] == 9, "nobody is caught so soon on so large a grid"
    assert main(["eval", run, "--option", "gravity=3"]) == 2
    assert "gravity" in capsys.readouterr().err


def test_plot_writes_both_files_and_tells_programs_which(run, capsys, tmp_path):
    assert main(["plot", run, "--metric", "seconds", "--out", str(tmp_path / "c"), "--json"]) == 0
    files = json.loads(capsys.readouterr().out)["files"]
    assert files == [str(tmp_path / "c.png"), str(tmp_path / "c.svg")]
    assert main(["plot", run, "--metric", "nonsense"]) == 2
    assert "No run has values of nonsense; metrics are" in capsys.readouterr().err


def test_bench_tells_programs_how_fast_a_world_is(capsys):
    assert main(["bench", "cartpole", "--worlds", "16", "--seconds", "0.01", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["worlds"] == 16 and result["agents_per_world"] == 1 and result["steps_per_second"] > 0


def test_policies_of_a_run_come_from_the_command_line():
    import tyro

    from slipstream.cli.train import Train, configure

    arguments = [
        "tag-gridworld",
        "--policy",
        "my-team=tagger",
        "--freeze",
        "my-team",
        "--load",
        "runner=runs/old:runner",
    ]
    arguments += ["--set", "epochs=2", "--set", "my-team.learning-rate=0.5", "--option", "num-taggers=3"]
    config = configure(tyro.cli(Train, args=arguments))
    assert config.env_options == {"num_taggers": 3}
    team, runner = config.policies["my-team"], config.policies["runner"]
    assert (team.groups, team.frozen, team.settings.learning_rate, team.settings.epochs) == (("tagger",), True, 0.5, 2)
    assert (runner.groups, runner.frozen, runner.load) == (("runner",), False, "runs/old:runner")
    assert runner.settings.learning_rate != 0.5 and runner.settings.epochs == 2


def test_groups_share_a_policy_when_asked_to():
    import tyro

    from slipstream.cli.train import Train, configure

    config = configure(tyro.cli(Train, args=["tag-gridworld", "--policy", "all=tagger,runner"]))
    assert {name: p.groups for name, p in config.policies.items()} == {"all": ("tagger", "runner")}
