"""The fingerprint of an adapter's folder, such as a LoRA's."""

from __future__ import annotations

from pathlib import Path

import xxhash

from chatcli.errors import ModelNotFound

# What mlx-lm reads of an adapter's folder.
FILES = ("adapter_config.json", "adapters.safetensors")
BLOCK_BYTES = 1 << 20


def fingerprint(folder: Path) -> str:
    """A digest of every byte that mlx-lm reads of the folder. Raises `ModelNotFound`."""
    digest = xxhash.xxh3_128()
    for name in FILES:
        try:
            with (folder / name).open("rb") as file:
                while block := file.read(BLOCK_BYTES):
                    digest.update(block)
        except OSError as error:
            reason = error.strerror or str(error)
            raise ModelNotFound(
                f"The adapter in '{folder}' cannot be read ({name}: {reason}): --adapter-path takes "
                f"a folder with {' and '.join(FILES)}, and a session that keeps it goes on without it "
                "if its model is named again with -m."
            ) from error
        digest.update(name.encode())
    return digest.hexdigest()
