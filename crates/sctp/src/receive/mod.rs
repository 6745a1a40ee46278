//! Filled in with the association's receive side.
