//! Checks the structure of the repository: see `tests/`.
