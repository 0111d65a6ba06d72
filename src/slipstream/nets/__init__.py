"""Networks over feature-major arrays: `[features, lanes]` in, `[outputs, lanes]` out."""
