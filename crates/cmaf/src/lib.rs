//! CMAF (ISO/IEC 23000-19) from the units of the hub: tracks, fragments, and files that every player seeks in.
//!
//! The crate is sans-IO: units come in, bytes with their places in time go out. Recordings and HLS are
//! made of the fragments of this crate.
