//! `cargo xtask fuzz`: each fuzz target for a while, on stable Rust.

use crate::Failure;

pub(crate) fn run(_: &[String]) -> Result<(), Failure> {
    Err(Failure::usage("no fuzz targets yet"))
}
