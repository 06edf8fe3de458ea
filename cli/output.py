"""The only module that prints. Results go to stdout: JSON alone with `--json`, else text and tables.

Messages go to stderr. Tables are drawn by rich on a terminal; elsewhere they are plain columns.
"""

import contextlib
import csv
import io
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any, TextIO

import typer

from .errors import ReaderGone

JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on stdout.")]


def as_json(value: Any) -> None:
    """One JSON value on one line, in ASCII, so that no locale can spoil it."""
    line(json.dumps(value, separators=(", ", ": ")))


def line(text: str) -> None:
    """One line on stdout; characters that its encoding does not have are written as escapes.

    Raises:
        ReaderGone: nobody reads stdout any more.
    """
    with _pipe(sys.stdout) as stream:
        try:
            stream.write(f"{text}\n")
        except UnicodeEncodeError:
            encoding = stream.encoding or "ascii"
            stream.write(f"{text}\n".encode(encoding, "backslashreplace").decode(encoding))


def pieces(data: Iterable[bytes]) -> None:
    """Bytes on stdout exactly as they are, but for a line end where the last line has none.

    Raises:
        ReaderGone: nobody reads stdout any more.
    """
    with _pipe(sys.stdout) as stream:
        last = b"\n"
        for piece in data:
            last = piece or last
            _write(stream, piece)
        if not last.endswith(b"\n"):
            _write(stream, b"\n")


def flush() -> None:
    """Hand over what was printed so far, so that a follower sees it.

    Raises:
        ReaderGone: nobody reads stdout any more.
    """
    with _pipe(sys.stdout) as stream:
        stream.flush()


def complain(message: str, hint: str | None = None) -> None:
    """An error on stderr: one line, and a second one that says what to do next."""
    if message:
        note(f"evrun: {message}")
    if hint:
        note(f"  hint: {hint}")


def note(text: str) -> None:
    """A message to people, on stderr; never lets the command fail."""
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(f"{printable(text)}\n")
        sys.stderr.flush()


class LiveLine:
    """One line at the bottom of a terminal (stderr) that is drawn again and again; notes scroll above it."""

    def __init__(self) -> None:
        from rich.console import Console  # noqa: PLC0415  (heavy, and only a terminal needs it)
        from rich.live import Live  # noqa: PLC0415

        self._live = Live(console=Console(stderr=True), auto_refresh=False, transient=True)

    def show(self, text: str) -> None:
        """Draw the line anew."""
        from rich.text import Text  # noqa: PLC0415

        with contextlib.suppress(OSError):
            if not self._live.is_started:
                self._live.start()
            self._live.update(Text(printable(text), overflow="ellipsis", no_wrap=True), refresh=True)

    def note(self, text: str) -> None:
        """A message above the line."""
        from rich.text import Text  # noqa: PLC0415

        with contextlib.suppress(OSError):
            self._live.console.print(Text(printable(text)))

    def end(self) -> None:
        """Take the line away."""
        with contextlib.suppress(OSError):
            self._live.stop()


def at_most(amount: str | None) -> str:
    """An upper bound in words; null is no bound at all."""
    return (
        "unknown (no bound without a price and --max-tokens)" if amount is None else f"at most {amount} USD"
    )


def facts(pairs: Iterable[tuple[str, object]]) -> None:
    """Names and values, one pair a line, the values in one column."""
    rows = [(name, printable(str(value))) for name, value in pairs]
    width = max((len(name) for name, _ in rows), default=0)
    for name, value in rows:
        line(f"{name:<{width}}  {value}".rstrip())


def table(headers: Sequence[str], rows: Iterable[Sequence[object]], *, title: str = "") -> None:
    """A table, columns of numbers set to the right; nothing at all when there are no rows."""
    cells = [[printable(str(cell)) for cell in row] for row in rows]
    if not cells:
        return
    if sys.stdout.isatty():
        _drawn(headers, cells, title)
    else:
        _columns(headers, cells, title)


STYLES = {
    "system": "bold magenta",
    "user": "bold green",
    "assistant": "bold cyan",
    "tool": "bold yellow",
    "judge": "bold blue",
    "end": "bold",
}
"""How the title of a section looks on a terminal, by whose it is."""

INDENT = "  "


def section(title: str, kind: str) -> None:
    """The title of a section, after an empty line; `kind` is one of `STYLES`."""
    line("")
    if sys.stdout.isatty():
        _wrapped(f"== {printable(title)}", STYLES[kind], "")
    else:
        line(f"== {printable(title)}")


def passage(name: str, text: str) -> None:
    """A text whole, set in, below its name if it has one. Wrapped on a terminal, elsewhere line by line."""
    shown = readable(text)
    terminal = sys.stdout.isatty()
    if name:
        _wrapped(f"{printable(name)}:", "dim", INDENT) if terminal else line(f"{INDENT}{printable(name)}:")
    if terminal:
        _wrapped(shown, "dim" if name == "reasoning" else "", INDENT * (2 if name else 1))
        return
    for one in shown.split("\n"):
        line(f"{INDENT * (2 if name else 1)}{one}".rstrip())


def readable(text: str) -> str:
    """As `printable`, for a text to be read: tabs are blanks, and lines may end as they do on Windows."""
    return printable(text.replace("\r\n", "\n").expandtabs(4).strip("\n"))


def json_text(value: object) -> str:
    """A JSON value as text for people."""
    return json.dumps(value, ensure_ascii=False)


def csv_table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A table as CSV (RFC 4180, but for plain line ends); null is an empty field."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(headers)
    writer.writerows(rows)
    line(text.getvalue().removesuffix("\n"))


def printable(text: str) -> str:
    """The text with control characters shown: a log may hold any, and a terminal would obey them."""
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)


def _columns(headers: Sequence[str], cells: list[list[str]], title: str) -> None:
    if title:
        line(f"\n{title}")
    right = _numeric(cells)
    widths = [max(map(len, column)) for column in zip(headers, *cells, strict=True)]
    for row in (list(headers), *cells):
        parts = (
            f"{cell:>{width}}" if to_right else f"{cell:<{width}}"
            for cell, width, to_right in zip(row, widths, right, strict=True)
        )
        line("  ".join(parts).rstrip())


def _drawn(headers: Sequence[str], cells: list[list[str]], title: str) -> None:
    from rich.console import Console  # noqa: PLC0415  (heavy, and only a terminal needs it)
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    drawn = Table(title=title or None, title_justify="left")
    for header, to_right in zip(headers, _numeric(cells), strict=True):
        drawn.add_column(header, justify="right" if to_right else "left", overflow="fold")
    for row in cells:
        drawn.add_row(*(Text(cell) for cell in row))
    with _pipe(sys.stdout) as stream:
        Console(file=stream).print(drawn)


def _wrapped(text: str, style: str, indent: str) -> None:
    from rich.console import Console  # noqa: PLC0415  (heavy, and only a terminal needs it)
    from rich.padding import Padding  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    with _pipe(sys.stdout) as stream:
        Console(file=stream, highlight=False).print(
            Padding(Text(text, style), (0, 0, 0, len(indent)), expand=False)
        )


def _numeric(cells: list[list[str]]) -> list[bool]:
    """Which columns hold numbers; a dash stands for one that is not known."""
    return [
        any(map(_is_number, column)) and all(cell == "-" or _is_number(cell) for cell in column)
        for column in zip(*cells, strict=True)
    ]


def _is_number(cell: str) -> bool:
    return cell.removesuffix(" %").replace(".", "", 1).isdigit()


def _write(stream: TextIO, data: bytes) -> None:
    binary = getattr(stream, "buffer", None)
    if binary is None:
        stream.write(data.decode("utf-8", "replace"))
    else:
        stream.flush()
        binary.write(data)


@contextlib.contextmanager
def _pipe(stream: TextIO) -> Iterator[TextIO]:
    """A closed pipe ends the command quietly; Python must not try to flush into it again at its exit."""
    try:
        yield stream
    except BrokenPipeError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        raise ReaderGone from error
