"""Switches as python-fire takes them, which the Hermes runner reads its command line with.

``--resume=true``, ``--resume True`` and ``--noresume`` become ``--resume`` or nothing, before anything else
reads the command line. That goes for the switches that Hermes has; a value that is neither true nor false is
refused, never taken for true.
"""

from evrun.errors import UsageFault

SWITCHES = frozenset({"list-distributions", "reasoning-disabled", "resume", "verbose"})
VALUES = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False, "none": False}
"""What may stand behind the equals sign, in any case of letters."""
WORDS = frozenset({"True", "False", "true", "false"})
"""What may stand as a word of its own, where nothing else could."""


def plain_switches(arguments: list[str]) -> list[str]:
    """The arguments of `evrun run` with every switch in its plain form, or left out where it is off.

    Raises:
        UsageFault: a switch with a value that is neither true nor false.
    """
    plain: list[str] = []
    left = list(reversed(arguments))
    while left:
        argument = left.pop()
        name, equals, value = argument.partition("=")
        switch = name[2:].replace("_", "-") if name.startswith("--") else ""
        if argument == "--":
            return [*plain, argument, *reversed(left)]
        if switch in SWITCHES:
            if not equals and left and left[-1] in WORDS:
                equals, value = "=", left.pop()
            if not equals or _is_on(name, value):
                plain.append(name)
        elif equals or switch.removeprefix("no").removeprefix("-") not in SWITCHES:
            plain.append(argument)
    return plain


def _is_on(name: str, value: str) -> bool:
    on = VALUES.get(value.lower())
    if on is None:
        raise UsageFault(f"{name}={value}: expected true or false", hint=f"{name} alone switches it on")
    return on


def step_in_one_word(words: list[str]) -> list[str]:
    """``--at step 3`` as ``--at 3``, as the parser wants it."""
    for place, word in enumerate(words[:-2]):
        if word == "--at" and words[place + 1] == "step" and words[place + 2].isdecimal():
            return [*words[: place + 1], *words[place + 2 :]]
    return words
