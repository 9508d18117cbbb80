"""An object store in a dictionary, with the faults of real ones: slow, failing, cutting bodies short."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyarrow import fs


class Bucket(fs.FileSystemHandler):
    """Objects by path. `fault(verb, path)` is called before every operation and may raise."""

    def __init__(self, fault: Callable[[str, str], None] | None = None) -> None:
        self.objects: dict[str, bytes] = {}
        self.fault = fault
        self.cut: list[int] = []
        "Lengths to which the next bodies read are cut."

    def filesystem(self) -> Any:
        return fs.PyFileSystem(self)

    def _do(self, verb: str, path: str) -> None:
        if self.fault is not None:
            self.fault(verb, path)

    def get_type_name(self) -> str:
        return "bucket"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: list[str]) -> list[fs.FileInfo]:
        infos = []
        for path in paths:
            self._do("size", path)
            data = self.objects.get(path)
            kind = fs.FileType.NotFound if data is None else fs.FileType.File
            infos.append(fs.FileInfo(path, kind, size=None if data is None else len(data)))
        return infos

    def get_file_info_selector(self, selector: fs.FileSelector) -> list[fs.FileInfo]:
        self._do("list", selector.base_dir)
        return [
            fs.FileInfo(path, fs.FileType.File, size=len(data), mtime_ns=0)
            for path, data in self.objects.items()
            if path.startswith(selector.base_dir + "/")
        ]

    def open_input_stream(self, path: str) -> Any:
        self._do("read", path)
        if path not in self.objects:
            raise FileNotFoundError(path)
        data = self.objects[path]
        return pa.PythonFile(pa.BufferReader(data[: self.cut.pop(0)] if self.cut else data), mode="r")

    def open_output_stream(self, path: str, metadata: Any) -> Any:
        self._do("write", path)
        return pa.PythonFile(_Put(self.objects, path), mode="w")

    def delete_file(self, path: str) -> None:
        self._do("remove", path)
        if path not in self.objects:
            raise FileNotFoundError(path)
        del self.objects[path]

    def open_input_file(self, path: str) -> Any:
        return self.open_input_stream(path)

    def open_append_stream(self, path: str, metadata: Any) -> Any:
        raise NotImplementedError

    def create_dir(self, path: str, recursive: bool) -> None:
        raise NotImplementedError

    def delete_dir(self, path: str) -> None:
        raise NotImplementedError

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:
        raise NotImplementedError

    def delete_root_dir_contents(self) -> None:
        raise NotImplementedError

    def move(self, src: str, dest: str) -> None:
        raise NotImplementedError

    def copy_file(self, src: str, dest: str) -> None:
        raise NotImplementedError


class _Put:
    """A body that becomes an object when it is closed."""

    def __init__(self, objects: dict[str, bytes], path: str) -> None:
        self._objects = objects
        self._path = path
        self._body = bytearray()
        self.closed = False

    def write(self, data: Any) -> int:
        self._body += bytes(data)
        return len(data)

    def flush(self) -> None:
        return None

    def close(self) -> None:
        self._objects[self._path] = bytes(self._body)
        self.closed = True
