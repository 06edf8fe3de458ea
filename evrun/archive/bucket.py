"""A store in a bucket that speaks S3, through obstore: the only module that knows that library."""

import asyncio
import os
import re
from collections.abc import Coroutine, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

from ..errors import UsageFault
from .manifest import FILES
from .stores import S3, ObjectMissing, StoreFault, shown

PART_BYTES: Final = 5 << 20
PARTS_AT_ONCE: Final = 2
ATTEMPTS: Final = 10  # as the SDKs of AWS, whose variable AWS_MAX_ATTEMPTS is heard
ENDPOINTS: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")

_NAME = re.compile(r"[A-Za-z0-9._-]+")
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
        if not _NAME.fullmatch(bucket):
            raise UsageFault(
                f"{shown(place) if '@' in place else S3 + '…'}: no bucket's name; expected s3://BUCKET/PREFIX",
                "keys come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, never from here",
            )
        store, self._error = _need_obstore()
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
        return self._asked("listing", FILES, self._sizes())

    async def _sizes(self) -> dict[str, int]:
        pages = self._store.list_async(prefix=FILES.rstrip("/"))
        return {str(one["path"]): int(one["size"]) async for page in pages for one in page}

    def read(self, name: str) -> Iterator[bytes]:
        """See Store."""
        size = self._asked("reading", name, self._size(name))
        for at in range(0, size, PART_BYTES):
            yield self._asked("reading", name, self._range(name, at, min(at + PART_BYTES, size)))

    async def _size(self, name: str) -> int:
        return int((await self._store.head_async(name))["size"])

    async def _range(self, name: str, start: int, end: int) -> bytes:
        return bytes(await self._store.get_range_async(name, start=start, end=end))

    def write(self, name: str, pieces: Iterable[bytes], size_bytes: int) -> None:
        """See Store. What is larger than a part goes in parts; until the last is there, nothing is."""
        content: Any = pieces if size_bytes > PART_BYTES else b"".join(pieces)
        try:
            self._asked("writing", name, self._put(name, content))
        except ObjectMissing as error:
            raise StoreFault(f"writing {name} to {self.place} failed: there is no such bucket") from error

    async def _put(self, name: str, content: Any) -> None:
        await self._store.put_async(name, content, chunk_size=PART_BYTES, max_concurrency=PARTS_AT_ONCE)

    def remove(self, names: list[str]) -> None:
        """See Store."""
        for name in names:
            try:
                self._asked("removing", name, self._delete(name))
            except ObjectMissing:
                continue

    async def _delete(self, name: str) -> None:
        await self._store.delete_async(name)

    def path(self, name: str) -> Path | None:
        """See Store."""
        del name
        return None

    def _asked(self, doing: str, name: str, request: Coroutine[Any, Any, _T]) -> _T:
        """Wait for an answer, in a loop of its own: the library's blocking calls hear no interrupt."""
        try:
            return asyncio.run(request)
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


def _need_obstore() -> tuple[Any, type[Exception]]:
    try:
        from obstore import exceptions, store  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise UsageFault(
            "an archive in a bucket needs obstore, which is not installed", "pip install 'evrun[archive]'"
        ) from error
    return store, exceptions.BaseError


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
