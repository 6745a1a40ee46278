//! Files into timed access units.
