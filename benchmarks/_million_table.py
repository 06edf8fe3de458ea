"""The table of the million: each step at a tenth and at all of the prompts, and how it grew."""

from typing import Any

MEBIBYTE = 1024 * 1024


def table(found: list[dict[str, Any]]) -> str:
    """Lines of text; `x` is the larger size's seconds over the smaller one's, to be compared with 10."""
    small, large = found[0], found[-1]
    head = f"{'':<24}{small['prompts']:>10,} prompts{'':>10}{large['prompts']:>10,} prompts"
    names = f"{'':<24}{'s':>9}{'CPU s':>9}{'MiB':>7}   {'s':>9}{'CPU s':>9}{'MiB':>7}{'x':>7}{'MiB more':>10}"
    lines = ["", head, names]
    lines += [_row(*pair) for pair in zip(small["steps"], large["steps"], strict=True)]
    lines += [
        _first_call(*pair) for pair in zip(small["steps"], large["steps"], strict=True) if _calls(*pair)
    ]
    lines += ["", *_log(small, large), "", *map(_account, found)]
    return "\n".join(lines)


def _cells(step: dict[str, Any]) -> str:
    return f"{step['seconds']:>9.2f}{step['cpu_s']:>9.2f}{step['peak_mib']:>7.0f}"


def _row(small: dict[str, Any], large: dict[str, Any]) -> str:
    grown = large["seconds"] / max(small["seconds"], 1e-9)
    more = large["peak_mib"] - small["peak_mib"]
    return f"{small['name']:<24}{_cells(small)}   {_cells(large)}{grown:>7.1f}{more:>10.0f}"


def _calls(small: dict[str, Any], large: dict[str, Any]) -> bool:
    return small["first_call_s"] is not None and large["first_call_s"] is not None


def _first_call(small: dict[str, Any], large: dict[str, Any]) -> str:
    name = f"  to the first call: {small['name']}"
    return f"{name:<40}{small['first_call_s']:>9.2f} s   {large['first_call_s']:>9.2f} s"


def _log(small: dict[str, Any], large: dict[str, Any]) -> list[str]:
    lines = []
    for name, of in (
        ("log, plain", lambda one: one["account"]["log"]["plain_bytes"]),
        ("log, as the run left it", lambda one: one["account"]["log"]["bytes"]),
        ("log, compacted", lambda one: one["compacted"]["bytes"]),
    ):
        cells = [
            f"{of(one) / MEBIBYTE:>12.1f} MiB{of(one) / one['prompts']:>8.0f} each" for one in (small, large)
        ]
        lines.append(f"{name:<24}{cells[0]}{cells[1]}")
    return lines


def _account(one: dict[str, Any]) -> str:
    calls = one["account"]["calls"]
    served = one["account"]["requests"]
    return (
        f"{one['prompts']:,} prompts: the endpoint served {served:,} requests; the log has "
        f"{calls['settled']:,} settled, {calls['in_doubt']} in doubt, {calls['released']} released, "
        f"{calls['open']} open; {calls['wrong']} settled that were not served so, "
        f"{calls['unknown_to_the_log']} served that the log does not know"
    )
