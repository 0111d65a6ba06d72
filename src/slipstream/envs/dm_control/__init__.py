"""The tasks of DeepMind's control suite: its models, its start states, its observations and its rewards.

Tassa et al., "DeepMind Control Suite", 2018. A task is put together from parts (see `task.Task`).
"""
