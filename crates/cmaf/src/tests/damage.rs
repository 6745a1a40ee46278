//! Files that were cut, and damaged ones.
