"""What a person sees of a run."""

import io
import math

from rich.console import Console

from slipstream.training.display import Display, panel_columns, plain_line, rounding

ROW = {
    "step": 1000.0,
    "seconds": 1.0,
    "steps_per_second": 1000.0,
    "time/update": 1.0,
    "broken_worlds": 0.0,
    "return/walker": 2.5,
    "walker/kl": 0.01,
}


def terminal() -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=100, height=30)


def text(console: Console) -> str:
    return console.file.getvalue()


def test_a_terminal_says_compiling_until_the_first_report(make_config):
    console = terminal()
    with Display(make_config(), console=console) as display:
        assert "compiling" in str(display._bar.tasks[0].description)
        display.report(ROW)
        assert "compiling" not in str(display._bar.tasks[0].description)


def test_the_panel_keeps_its_height_and_the_last_evaluation(make_config):
    with Display(make_config(), console=terminal()) as display:
        for i in range(8):
            display.report({**ROW, **{f"report/{k}": 1.0 for k in range(6)}, "evaluation/walker": 7.0 + i})
        high = display._height
        display.report({**ROW, "return/walker": math.nan})
        assert display._height == high > 6
        assert display._known["evaluation/walker"] == 14.0 and display._known["return/walker"] == 2.5
        shown = dict(panel_columns({**ROW, **display._known})[1])
    assert shown["evaluation walker"] == "14"


def test_elsewhere_every_report_is_a_line(make_config):
    console = Console(file=io.StringIO(), width=200)
    with Display(make_config(), console=console) as display:
        display.report(ROW)
        display.warn("something [odd]")
    lines = text(console).splitlines()
    assert lines[0].startswith("compiling ") and lines[1] == plain_line(ROW)
    assert lines[2] == "Warning: something [odd]"


def test_a_quiet_display_says_nothing(make_config):
    console = Console(file=io.StringIO())
    with Display(make_config(), quiet=True, console=console) as display:
        display.report(ROW)
        display.warn("something")
    assert text(console) == ""


def test_a_terminal_that_hung_up_does_not_end_the_run(make_config):
    class HungUp(io.StringIO):
        def write(self, text):
            raise OSError(5, "Input/output error")

    with Display(make_config(), console=Console(file=HungUp(), width=80)) as display:
        display.report(ROW)
        display.warn("something")


def test_steps_that_are_rounded_up_are_said_to_be(make_config):
    assert rounding(make_config(total_steps=100)) == "100 steps are rounded up to 112: 7 iterations of 16."
    assert rounding(make_config(total_steps=96)) is None
