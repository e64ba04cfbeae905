//! Holds the house to its plan: see `tests/`.
