"""Which runs belong together, and labels that say how the others differ."""

from slipstream.runs.directory import RunDirectory
from slipstream.runs.families import find_families


def policies(*names, **settings):
    return {name: {"algo": "ppo", "settings": {"learning_rate": 0.1, "hidden": [8], **settings}} for name in names}


def families(tmp_path, *configs) -> list[tuple[str, str]]:
    runs = [RunDirectory.create(tmp_path / f"run{i}", {"env": "tag", **c}) for i, c in enumerate(configs)]
    return [(f.label, f.count) for f in find_families(runs)]


def test_runs_that_differ_only_in_their_seed_are_one_family(tmp_path):
    found = families(tmp_path, {"seed": 0}, {"seed": 1}, {"seed": 2, "checkpoint_every": 3.0})
    assert found == [("tag", "3 seeds")]


def test_the_same_seed_twice_is_not_two_seeds(tmp_path):
    assert families(tmp_path, {"seed": 0}, {"seed": 0}) == [("tag", "2 runs")]


def test_labels_say_what_differs(tmp_path):
    first = {"seed": 0, "num_worlds": 8, "env_options": {"num_runners": 5}, "policies": policies("a")}
    second = {"seed": 1, "num_worlds": 16, "env_options": {"num_runners": 5}, "policies": policies("a", hidden=[4, 4])}
    assert families(tmp_path, first, second) == [
        ("tag, num_worlds=8, hidden=[8]", ""),
        ("tag, num_worlds=16, hidden=[4, 4]", ""),
    ]


def test_what_all_policies_have_in_common_is_said_once_and_else_whose_it_is(tmp_path):
    both, one = policies("a", "b", learning_rate=0.2), policies("a") | policies("b", learning_rate=0.2)
    assert families(tmp_path / "1", {"policies": policies("a", "b")}, {"policies": both}) == [
        ("tag, learning_rate=0.1", ""),
        ("tag, learning_rate=0.2", ""),
    ]
    assert families(tmp_path / "2", {"policies": both}, {"policies": one}) == [
        ("tag, a.learning_rate=0.2", ""),
        ("tag, a.learning_rate=0.1", ""),
    ]
    three = [{"policies": p} for p in (policies("a", "b"), both, one)]
    assert families(tmp_path / "3", *three)[2] == ("tag, a.learning_rate=0.1, b.learning_rate=0.2", "")


def test_another_world_is_all_that_needs_to_be_said(tmp_path):
    found = families(tmp_path, {"num_worlds": 8}, {"env": "cartpole", "num_worlds": 16})
    assert found == [("tag", ""), ("cartpole", "")]


def test_many_differences_are_cut_short_and_labels_still_differ(tmp_path):
    base = dict.fromkeys("abcdef", 1)
    found = families(tmp_path, base, {**base, "f": 2}, {**base, "f": 3, **dict.fromkeys("abcde", 2)})
    assert found[0][0] == "tag, a=1, b=1, c=1, 3 more (run0)" and found[1][0] == "tag, a=1, b=1, c=1, 3 more (run1)"
    assert len({label for label, _ in found}) == 3
