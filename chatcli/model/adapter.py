"""A folder with an adapter of a model, such as a LoRA: is it one, and which; refuses to know MLX."""

from __future__ import annotations

from pathlib import Path

import xxhash

from chatcli.errors import ModelNotFound

# What mlx-lm reads of such a folder.
FILES = ("adapter_config.json", "adapters.safetensors")
BLOCK = 1 << 20


def fingerprint(folder: Path) -> str:
    """A digest of every byte that mlx-lm reads, wherever the folder is. Raises `ModelNotFound`."""
    digest = xxhash.xxh3_128()
    for name in FILES:
        try:
            with (folder / name).open("rb") as file:
                while block := file.read(BLOCK):
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
