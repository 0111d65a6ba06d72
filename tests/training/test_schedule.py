"""Coarse physics first: worlds are carried over at the change, and runs resume across it bit for bit."""

import dataclasses

import numpy as np
import pytest

from slipstream.algos.settings import PPOConfig, SACConfig
from slipstream.cli.train import Train, configure
from slipstream.envs.registry import make
from slipstream.runs.checkpoint import checkpoint_names, load_checkpoint
from slipstream.runs.directory import RunDirectory
from slipstream.runs.metrics import read_metrics
from slipstream.training.api import train
from slipstream.training.choices import default_config
from slipstream.training.config import TrainConfig
from slipstream.training.config_json import from_json, to_json
from slipstream.training.evaluate import Judge
from slipstream.training.fused import FusedTrainer
from slipstream.training.schedule import Phase, carried_over, check_schedule, parse_schedule, phase_at

SCHEDULE = ("20:integrator=euler", "48:integrator=euler,timestep=0.01,frame_skip=4")
"""In iterations of 16 steps: two, one, and the rest with the task's own physics."""
SETTINGS = {
    "ppo": PPOConfig(hidden=(8,), epochs=1, minibatches=2),
    "sac": SACConfig(hidden=(8,), batch_size=8, warm_up=16, replay_size=64, updates_per_step=0.25),
}


def config_of(schedule=SCHEDULE, algo="ppo", iterations=5, **changes) -> TrainConfig:
    config = default_config(
        "inverted-pendulum",
        algo=algo,
        num_worlds=4,
        rollout_length=4,
        total_steps=16 * iterations,
        schedule=schedule,
        report_every=0.0,
        checkpoint_every=0.0,
        keep_checkpoints=9,
        evaluate_every=None,
        evaluate_episodes=2,
        seed=5,
        **changes,
    )
    policies = {n: dataclasses.replace(p, settings=SETTINGS[algo]) for n, p in config.policies.items()}
    return dataclasses.replace(config, policies=policies)


def integrators(trainer: FusedTrainer, iterations: int) -> list[tuple[str, int]]:
    """What the worlds are simulated with in each iteration."""
    seen = []
    for _ in range(iterations):
        robot = trainer.worlds.env
        seen.append((robot.model.options.integrator, robot.frame_skip))  # pyright: ignore[reportAttributeAccessIssue]
        trainer.iterate()
    return seen


# Presets.


def test_a_humanoid_begins_with_coarse_physics_unless_somebody_says_otherwise():
    assert default_config("humanoid").schedule == ("12M:integrator=euler",)
    assert configure(Train(env="humanoid")).schedule == ("12M:integrator=euler",)
    assert configure(Train(env="humanoid", schedule=("2M:integrator=euler",))).schedule == ("2M:integrator=euler",)
    assert configure(Train(env="humanoid", schedule=("none",))).schedule == ()
    assert default_config("humanoid", schedule=()).schedule == ()
    for own in (default_config("humanoid", integrator="rk4"), default_config("humanoid", algo="sac")):
        assert own.schedule == ()


# What is written.


def test_a_schedule_is_read_as_it_is_written():
    phases = parse_schedule(["500k:integrator=euler", "8M:self-contacts=0, timestep=0.005,frame_skip=3"])
    assert phases[0] == Phase(500_000, {"integrator": "euler"})
    assert phases[1] == Phase(8_000_000, {"self_contacts": 0, "timestep": 0.005, "frame_skip": 3})
    assert parse_schedule(["8_000_000:integrator=None"]) == (Phase(8_000_000, {"integrator": None}),)
    assert [phase_at(phases, step) for step in (0, 499_999, 500_000, 7_999_999, 8_000_000)] == [0, 0, 1, 1, 2]


@pytest.mark.parametrize(
    ("schedule", "error"),
    [
        ("8M", "must look like STEPS:option=value"),
        ("8M:", "must look like STEPS:option=value"),
        ("8M:integrator", "must look like STEPS:option=value"),
        ("soon:integrator=euler", "such as 500k, 8M or 8_000_000; got 'soon'"),
        ("0:integrator=euler", "got '0'"),
        ("-3:integrator=euler", "got '-3'"),
        ("1.5:integrator=euler", "got '1.5'"),
        (":integrator=euler", "got ''"),
        (["2M:integrator=euler", "1M:self_contacts=0"], "must increase: '1M:self_contacts=0' ends no later"),
        (["2M:integrator=euler", "2M:self_contacts=0"], "must increase"),
        ("1M:integratr=euler", "Unknown option 'integratr' of inverted-pendulum"),
        ("1M:integrator=midpoint", "Schedule '1M:integrator=midpoint': .*'midpoint'; choose one of"),
        ("1M:self_contacts=many", "Option self_contacts of inverted-pendulum must be a whole number, got 'many'"),
        ("1M:frame_skip=3", "control step 0.06 s long where the task has 0.04 s: give timestep and frame_skip"),
    ],
)
def test_a_bad_schedule_is_refused_before_anything_is_made(schedule, error, tmp_path):
    with pytest.raises(ValueError, match=error):
        train("inverted-pendulum", schedule=schedule, run=tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()


def test_a_schedule_that_changes_what_a_policy_sees_is_refused():
    with pytest.raises(ValueError, match="makes the size of observations 18 where the task has 17"):
        default_config("walker2d", schedule="1M:exclude_current_positions_from_observation=false", env_options={})


def test_only_robots_have_a_schedule():
    with pytest.raises(ValueError, match="physics of a robot, and cartpole has none"):
        default_config("cartpole", schedule="1M:max_steps=3")
    with pytest.raises(ValueError, match="that of gym:CartPole-v1 is Gymnasium's"):
        default_config("gym:CartPole-v1", schedule="1M:integrator=euler")
    with pytest.raises(ValueError, match="xml_file is another robot"):
        default_config("half-cheetah", schedule="1M:xml_file=hopper.xml")


def test_a_schedule_is_recorded_and_read_again():
    config = config_of()
    assert from_json(to_json(config)) == config
    written = configure(Train("inverted-pendulum", schedule=SCHEDULE))
    assert written.schedule == SCHEDULE
    assert default_config("inverted-pendulum", schedule=SCHEDULE[0]).schedule == SCHEDULE[:1]


# What happens.


def test_each_phase_has_its_physics_and_the_task_its_own():
    trainer = FusedTrainer(config_of())
    assert integrators(trainer, 5) == [("euler", 2)] * 2 + [("euler", 4)] + [("rk4", 2)] * 2
    assert trainer.figures() == {"phase": 2}


def test_worlds_are_carried_over_at_the_change(same):
    config = config_of(("16:integrator=euler",))
    changing, coarse = FusedTrainer(config), FusedTrainer(config_of((), env_options={"integrator": "euler"}))
    for trainer in (changing, coarse):
        trainer.iterate()
    assert changing.worlds is not coarse.worlds
    assert same(changing.worlds.save(), coarse.worlds.save())
    assert same(changing.save()[0], coarse.save()[0])
    for trainer in (changing, coarse):
        trainer.iterate()
    assert not same(changing.worlds.save(), coarse.worlds.save())


def test_what_there_was_not_before_the_change_begins_afresh():
    before = {"state/qpos/0": np.ones(3), "clock/step": np.full(3, 7), "clock/report_sum/speed": np.ones(3)}
    fresh = {"state/qpos/0": np.zeros(3), "state/dropped/0": np.zeros(3), "clock/step": np.zeros(3)}
    after = carried_over(before, fresh)
    assert list(after) == list(fresh)
    assert after["state/qpos/0"].tolist() == [1, 1, 1] and after["clock/step"].tolist() == [7, 7, 7]
    assert after["state/dropped/0"].tolist() == [0, 0, 0]


def end(run: RunDirectory) -> dict[str, dict[str, np.ndarray]]:
    """All that the last checkpoint of a run keeps."""
    checkpoint = load_checkpoint(run)
    return {part: checkpoint.part(part) for part in checkpoint.parts}


def test_a_run_resumed_before_or_after_a_change_ends_like_one_that_did_not_stop(same, tmp_path):
    train(config_of(), run=tmp_path / "run", quiet=True)
    run = RunDirectory.open(tmp_path / "run")
    whole = end(run)
    assert [row["phase"] for row in read_metrics(run)] == [0, 1, 2, 2, 2]
    for name in checkpoint_names(run)[:-1]:  # before, at and after both changes
        train(resume=run.path, checkpoint=name, quiet=True)
        assert same(end(run), whole)


def test_a_run_with_a_replay_resumes_across_a_change(same, tmp_path):
    runs = [RunDirectory(tmp_path / name) for name in ("whole", "before", "at")]
    for run, iterations in zip(runs, (4, 1, 2)):
        train(config_of(("32:integrator=euler",), "sac", iterations), run=run.path, quiet=True)
    whole, *parts = runs
    for part in parts:
        train(resume=part.path, total_steps=64, quiet=True)
        assert same(end(part), end(whole))


def test_evaluations_are_of_the_task_itself():
    config = config_of()
    trainer = FusedTrainer(config)
    judge = Judge(config, trainer.policies)
    plain = Judge(config_of(()), trainer.policies)
    assert judge(trainer.actors) == plain(trainer.actors)


def test_beginning_anew_begins_with_the_first_phase(same):
    config = config_of()
    trainer, other = FusedTrainer(config), FusedTrainer(dataclasses.replace(config, seed=9))
    for _ in range(4):
        trainer.iterate()
    trainer.begin_anew(9)
    for _ in range(3):
        trainer.iterate()
        other.iterate()
    assert same(trainer.save()[0], other.save()[0])


@pytest.mark.slow
def test_a_humanoid_goes_on_with_its_self_contacts():
    config = default_config("humanoid", num_worlds=8, rollout_length=2, schedule="16:integrator=euler,self_contacts=0")
    check_schedule("humanoid", config)
    trainer = FusedTrainer(config)
    assert not any(name.startswith("state/dropped") for name in trainer.worlds.save())
    for _ in range(2):
        trainer.iterate()
    assert trainer.worlds.save().keys() == make("humanoid", 8).save().keys()
    assert np.isfinite(trainer.worlds.get_state()["qpos"]).all()
