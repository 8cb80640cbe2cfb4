"""The file that Graft reads, an uncompressed zip of one JSON document and the tensors' bytes; and the one that it writes."""

import contextlib
import ctypes
import json
import os
import struct
import warnings
import zipfile

import torch

VERSION = 1


class FileWriter:
    """The file's tensors, each once: views of the same memory are one."""

    def __init__(self):
        self.tensors, self.known = [], {}

    def tensor(self, t):
        """Notes the tensor and says where its bytes will lie."""
        key = (t.data_ptr(), t.dtype, tuple(t.shape), t.stride()) if t.numel() else id(t)
        if key not in self.known:
            self.known[key] = {"record": f"weights/{len(self.tensors)}", "dtype": str(t.dtype)[6:], "shape": list(t.shape)}
            self.tensors.append(t)  # holding t keeps its memory from being given away
        return self.known[key]

    def write(self, path, name, graphs):
        """Complete or not at all: beside its place first, then renamed."""
        document = {"format": "graft-fx", "version": VERSION, "torch": torch.__version__, "name": name, "graphs": graphs}
        part = f"{os.fspath(path)}.{os.getpid()}.part"
        try:
            with zipfile.ZipFile(part, "w", zipfile.ZIP_STORED) as z:
                self._add(z, "graft_fx.json", json.dumps(document, allow_nan=False).encode())
                for i, t in enumerate(self.tensors):
                    plain = t.detach().cpu().contiguous()
                    # Not by NumPy, which PyTorch does not need.
                    self._add(z, f"weights/{i}", ctypes.string_at(plain.data_ptr(), plain.numel() * plain.element_size()))
            os.replace(part, path)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.remove(part)

    @staticmethod
    def _add(z, name, data):
        # Data begins at a multiple of 64, so that readers can map it: the extra field is padding.
        info = zipfile.ZipInfo(name)
        start = z.fp.tell() + 30 + len(name)
        padding = -(start + 4) % 64
        info.extra = struct.pack("<HH", 0x4246, padding) + bytes(padding)
        z.writestr(info, data)


def load_exported(path, library):
    """The program of torch.export that Graft wrote there, with the operators of its library."""
    torch.ops.load_library(library)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # its buffers are read-only, and nobody writes to them
        return torch.export.load(path)
