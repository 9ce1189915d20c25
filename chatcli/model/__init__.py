"""From a model's name to a loaded model: hub, files, weights, fingerprint, device, ranks."""
