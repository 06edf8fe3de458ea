"""Batch runs: prompts in, trajectories out."""
