"""Worlds whose rules are somebody else's program: they have an engine of their own in place of rules for Dr.Jit."""

from __future__ import annotations

from typing import Any, NoReturn

from slipstream.envs.env import Env


class ForeignWorld(Env):
    """A world without rules of ours."""

    written_for: str
    """What its rules are, as the end of a sentence."""

    def reset(self, rng: Any) -> NoReturn:
        self._refuse()

    def step(self, state: Any, action: Any, rng: Any) -> NoReturn:
        self._refuse()

    def observe(self, state: Any) -> NoReturn:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise ValueError(f"{type(self).__name__} is {self.written_for}: Dr.Jit cannot run it.")
