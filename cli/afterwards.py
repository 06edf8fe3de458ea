"""What a command leaves to be done at its end, however that comes about."""

from contextlib import ExitStack

afterwards = ExitStack()
