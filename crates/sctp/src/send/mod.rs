//! Filled in with the association's send side.
