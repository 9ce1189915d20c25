"""What an adapter's folder, such as a LoRA's, says of it."""

from __future__ import annotations

import hashlib
from pathlib import Path

from chatcli.errors import ModelNotFound
from chatcli.model import inspect

CONFIG, WEIGHTS = "adapter_config.json", "adapters.safetensors"


def config_digest(folder: Path) -> str:
    """A digest of how an adapter changes its model; its weights are hashed as they are loaded.

    Raises `ModelNotFound` where mlx-lm could not read one of its two files.
    """
    for name in (WEIGHTS, CONFIG):
        try:
            data = inspect.read_regular(folder / name, 0 if name == WEIGHTS else inspect.MAX_JSON_BYTES)
        except OSError as error:
            reason = error.strerror or str(error)
            raise ModelNotFound(
                f"The adapter in '{folder}' cannot be read ({name}: {reason}): --adapter-path takes "
                f"a folder with {CONFIG} and {WEIGHTS}, and a session that keeps it goes on without it "
                "if its model is named again with -m."
            ) from error
    return hashlib.sha256(data).hexdigest()
