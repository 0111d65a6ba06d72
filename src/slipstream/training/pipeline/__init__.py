"""Sampling, learning, evaluating and filming in processes of their own, for environments that nobody can compile."""
