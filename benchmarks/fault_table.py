"""What stores make of damage, and of what a crash may legally leave: 500 acknowledged records, one fault.

python benchmarks/fault_table.py [--records 500] [--positions 20] [--seed 1] [--stores evrun,sqlite,…]
                                 [--markdown] [--json FILE]

Each record is a durable append of its own. Each fault is put on a copy of the files as they were at the last
acknowledgement, which a process of its own then reopens. A store is silent if it opens and reads without any
error and acknowledged records are missing or wrong. `--stores` takes names below or `module:Class`.
"""

import argparse
import importlib
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks._stores import CHECK_NONE, CHECK_OK, Store  # noqa: E402
from benchmarks._stores_faults import DAMAGE, LEGAL, Fault, Written  # noqa: E402
from benchmarks._stores_trial import Kind, Outcome, try_fault, write_store  # noqa: E402

STORES = {
    "evrun": "benchmarks._stores_evrun:Evrun",
    "evrun-no-head": "benchmarks._stores_evrun:EvrunWithoutHead",
    "sqlite": "benchmarks._stores_sqlite:Sqlite",
    "sqlite-checkpointed": "benchmarks._stores_sqlite:SqliteCheckpointed",
    "eventsourcing": "benchmarks._stores_eventsourcing:Eventsourcing",
    "rocksdb-point-in-time": "benchmarks._stores_rocksdb:RocksDb",
    "rocksdb-absolute": "benchmarks._stores_rocksdb:RocksDbAbsolute",
    "rocksdb-tolerate-tail": "benchmarks._stores_rocksdb:RocksDbTail",
    "rocksdb-skip": "benchmarks._stores_rocksdb:RocksDbSkip",
    "lmdb": "benchmarks._stores_lmdb:Lmdb",
}

WORST_FIRST: tuple[Kind, ...] = ("crashed", "hung", "refused")

Cell = list[Outcome]
Row = dict[str, Cell]  # by the fault's name


def load(name: str) -> Store:
    """The store that a name stands for."""
    module, _, cls = STORES.get(name, name).partition(":")
    try:
        store: Store = getattr(importlib.import_module(module), cls)()
    except ModuleNotFoundError as error:
        sys.exit(f"The store {name} cannot be had: {error}. Run: pip install -e '.[bench]'")
    return store


def measure(stores: Sequence[Store], records: int, positions: int, seed: int) -> dict[str, Row]:
    """Every fault at every place, for every store; stores of one family share their files."""
    table: dict[str, Row] = {}
    with tempfile.TemporaryDirectory() as directory:
        families: dict[str, Written] = {}
        for store in stores:
            scratch = Path(directory) / store.family.replace(" ", "-")
            if store.family not in families:
                scratch.mkdir()
                families[store.family] = write_store(store, scratch, records)
            row: Row = {}
            for fault in (*DAMAGE, *LEGAL):
                seeds = [
                    f"{seed} {store.family} {fault.name} {i}" for i in range(1 if fault.once else positions)
                ]
                row[fault.name] = [try_fault(store, families[store.family], fault, s, scratch) for s in seeds]
            table[store.name] = row
    return table


def count(cell: Cell, kind: Kind) -> int:
    """How many of the outcomes are of this kind."""
    return sum(outcome.kind == kind for outcome in cell)


def worst(cell: Cell) -> str:
    """The worst that happened, in a word: silence, then a crash, then no end, then a refusal."""
    silent = [outcome for outcome in cell if outcome.kind == "silent"]
    if silent:
        star = "*" if any(outcome.wrong for outcome in silent) else ""
        return f"{min(outcome.intact for outcome in silent)}{star} silently"
    for kind in WORST_FIRST:
        if count(cell, kind):
            return kind
    return str(cell[0].intact)


def counts(cell: Cell) -> str:
    """Silent losses / refusals / images, with crashes and hangs where there are any."""
    others = "".join(f" {kind[0]}{count(cell, kind)}" for kind in ("crashed", "hung") if count(cell, kind))
    return f"{count(cell, 'silent')}/{count(cell, 'refused')}/{len(cell)}{others}"


def totals(row: Row) -> dict[str, str]:
    """Over all images of a store: losses and false refusals, as counts and rates."""
    damage = [outcome for fault in DAMAGE for outcome in row[fault.name]]
    legal = [outcome for fault in LEGAL for outcome in row[fault.name]]
    silent = [outcome for outcome in damage + legal if outcome.kind == "silent"]
    ok = sum(outcome.check == CHECK_OK for outcome in silent)
    checked = [outcome for outcome in silent if outcome.check != CHECK_NONE]
    return {
        "silent": rate(len(silent), len(damage) + len(legal)),
        "of which altered records": str(sum(outcome.wrong > 0 for outcome in silent)),
        "own check says ok": f"{ok} of {len(checked)}" if checked or not silent else "none",
        "damage refused": str(count(damage, "refused")),
        "crashed or hung": str(sum(count(damage + legal, kind) for kind in ("crashed", "hung"))),
        "damage, all there": str(count(damage, "whole")),
        "false refusals": rate(sum(count(legal, kind) for kind in WORST_FIRST), len(legal)),
    }


def rate(part: int, whole: int) -> str:
    """A count with its percentage."""
    return f"{part}/{whole} = {100 * part / whole:.0f} %"


def lines(titles: Sequence[str], table: Mapping[str, Sequence[str]], *, markdown: bool) -> Iterator[str]:
    """A table with one row for each name. A cell may have two lines."""
    if markdown:
        yield "| " + " | ".join(("store", *titles)) + " |"
        yield "| --- |" + " --- |" * len(titles)
        for name, cells in table.items():
            yield "| " + " | ".join((name, *(cell.replace("\n", "<br>") for cell in cells))) + " |"
        return
    rows = [("store", *titles), *((name, *cells) for name, cells in table.items())]
    widths = [max(len(part) for row in rows for part in row[i].split("\n")) for i in range(len(rows[0]))]
    for row in rows:
        split = [cell.split("\n") for cell in row]
        for i in range(max(len(parts) for parts in split)):
            found = (parts[i] if i < len(parts) else "" for parts in split)
            yield "  ".join(part.ljust(width) for part, width in zip(found, widths, strict=True)).rstrip()


def section(faults: Sequence[Fault], table: Mapping[str, Row], *, markdown: bool) -> Iterator[str]:
    """The table for some of the faults."""
    cells = {
        name: [f"{worst(row[fault.name])}\n{counts(row[fault.name])}" for fault in faults]
        for name, row in table.items()
    }
    titles = [fault.title.replace(", ", ",\n") if not markdown else fault.title for fault in faults]
    return lines(titles, cells, markdown=markdown)


def show(table: Mapping[str, Row], head: str, *, markdown: bool) -> None:
    """Print all."""
    sums = {name: totals(row) for name, row in table.items()}
    titles = list(next(iter(sums.values())))
    parts = (
        (
            "Damage to acknowledged records",
            section(DAMAGE, table, markdown=markdown),
        ),
        ("Legal torn tails", section(LEGAL, table, markdown=markdown)),
        ("Totals", lines(titles, {n: list(row.values()) for n, row in sums.items()}, markdown=markdown)),
    )
    print(f"```\n{head}\n```" if markdown else head)
    for title, rows in parts:
        print(f"\n{'**' + title + '**' if markdown else title}\n")
        print("\n".join(rows))
    print(
        "\nA cell: the worst that any image gave; then silent losses / refusals / images, c crashed, h hung."
        "\n*: altered records came back as if they were right. False refusals include crashes and hangs."
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=500)
    parser.add_argument("--positions", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--stores", default=",".join(STORES), help="names, or module:Class")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--json", type=Path, help="write every outcome there")
    given = parser.parse_args()
    stores = [load(name) for name in given.stores.split(",")]
    versions = ", ".join(dict.fromkeys(store.version() for store in stores))
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    head = (
        f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"commit {commit.stdout.strip()}\n{versions}\n"
        f"{given.records} acknowledged records, {given.positions} places for each fault, seed {given.seed}"
    )
    table = measure(stores, given.records, given.positions, given.seed)
    show(table, head, markdown=given.markdown)
    if given.json:
        found = {
            name: {f: [o._asdict() for o in cell] for f, cell in row.items()} for name, row in table.items()
        }
        given.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
