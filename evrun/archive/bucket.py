"""A store in a bucket that speaks S3, through obstore: the only module that knows that library."""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from ..errors import UsageFault
from .manifest import FILES
from .stores import S3, ObjectMissing, StoreFault

PART_BYTES: Final = 5 << 20
PARTS_AT_ONCE: Final = 2
ATTEMPTS: Final = 10  # as the SDKs of AWS, whose variable AWS_MAX_ATTEMPTS is heard
ENDPOINTS: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")

_STATUS = re.compile(r"status code: (\d{3}[A-Za-z ]*)")
_CODE = re.compile(r"<Code>(\w+)</Code>")
_T = TypeVar("_T")


class Bucket:
    """The objects under a prefix of one bucket. Endpoint, region and keys are those of the environment."""

    def __init__(self, place: str) -> None:
        self.place = place.rstrip("/")
        bucket, _, prefix = place.removeprefix(S3).strip("/").partition("/")
        if not bucket:
            raise UsageFault(f"{place}: expected s3://BUCKET/PREFIX")
        self._obstore, store, self._error = _need_obstore()
        try:
            self._store = store.S3Store(
                bucket,
                prefix=prefix or None,
                client_options={"allow_http": _is_plain(), "timeout": "120s"},
                retry_config={"max_retries": _attempts() - 1},
            )
        except (ValueError, TypeError, self._error) as error:
            raise UsageFault(
                f"{place} cannot be used: {_first_line(error)}", "look at the AWS_ variables"
            ) from error

    def sizes(self) -> dict[str, int]:
        """See Store."""
        return self._asked("listing", FILES, self._sizes)

    def _sizes(self) -> dict[str, int]:
        pages = self._obstore.list(self._store, prefix=FILES.rstrip("/"))
        return {str(one["path"]): int(one["size"]) for page in pages for one in page}

    def read(self, name: str) -> Iterator[bytes]:
        """See Store."""
        size = self._asked("reading", name, lambda: int(self._obstore.head(self._store, name)["size"]))
        for at in range(0, size, PART_BYTES):
            yield self._asked("reading", name, partial(self._range, name, at, size))

    def _range(self, name: str, start: int, size: int) -> bytes:
        return bytes(
            self._obstore.get_range(self._store, name, start=start, end=min(start + PART_BYTES, size))
        )

    def write(self, name: str, pieces: Iterable[bytes], size_bytes: int) -> None:
        """See Store. What is larger than a part goes in parts; until the last is there, nothing is."""
        content: Any = pieces if size_bytes > PART_BYTES else b"".join(pieces)
        try:
            self._asked(
                "writing",
                name,
                lambda: self._obstore.put(
                    self._store, name, content, chunk_size=PART_BYTES, max_concurrency=PARTS_AT_ONCE
                ),
            )
        except ObjectMissing as error:
            raise StoreFault(f"writing {name} to {self.place} failed: there is no such bucket") from error

    def remove(self, names: list[str]) -> None:
        """See Store."""
        for name in names:
            try:
                self._asked("removing", name, partial(self._obstore.delete, self._store, name))
            except ObjectMissing:
                continue

    def path(self, name: str) -> Path | None:
        """See Store."""
        del name
        return None

    def _asked(self, doing: str, name: str, ask: Callable[[], _T]) -> _T:
        try:
            return ask()
        except FileNotFoundError as error:
            if error.errno is not None:
                raise  # of the file that is being sent, and not of the store
            if "NoSuchBucket" not in str(error):
                raise ObjectMissing(name) from error
            raise self._fault(doing, name, error) from error
        except self._error as error:
            raise self._fault(doing, name, error) from error

    def _fault(self, doing: str, name: str, error: BaseException) -> StoreFault:
        return StoreFault(
            f"{doing} {name} in {self.place} failed: {_reason(str(error))}",
            "look at AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and the bucket",
        )


def _need_obstore() -> tuple[Any, Any, type[Exception]]:
    try:
        import obstore  # noqa: PLC0415 - an extra
        from obstore import exceptions, store  # noqa: PLC0415
    except ImportError as error:
        raise UsageFault(
            "an archive in a bucket needs obstore, which is not installed", "pip install 'evrun[archive]'"
        ) from error
    return obstore, store, exceptions.BaseError


def _is_plain() -> bool:
    """Whether the endpoint is spoken to without TLS: only if somebody has named one that begins so."""
    return any(os.environ.get(name, "").startswith("http://") for name in ENDPOINTS)


def _attempts() -> int:
    text = os.environ.get("AWS_MAX_ATTEMPTS", "")
    return max(1, int(text)) if text.isascii() and text.isdigit() else ATTEMPTS


def _reason(text: str) -> str:
    """What a store's error says, without the answer's body: that may hold what was signed."""
    code, status = _CODE.search(text), _STATUS.search(text)
    if status is not None:
        return status[1].strip() + (f" ({code[1]})" if code is not None else "")
    return text.partition("\n")[0].rpartition(" - ")[2].strip()[:200] or "no reason given"


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]
