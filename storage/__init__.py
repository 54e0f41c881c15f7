"""The counts cache: layout, manifest, commit, and its SQL views. Knows nothing of tokenizers or datasets."""
