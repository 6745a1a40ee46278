//! Where fragments and segments begin.
