"""Agents of people's own, and the programs that know nothing of evrun."""
