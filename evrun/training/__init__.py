"""Training runs: tasks in, a better adapter out; every step an event."""
