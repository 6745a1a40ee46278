//! The table of cameras as they are: each row cites the public report of what a camera does.
//!
//! The fake camera does what the rows say, tests hold the server to what a viewer gets, and
//! `docs/reference/cameras.md` is made from the rows. No row was tried with a camera.

mod answers;
mod descriptions;
mod heads;
mod packets;

use super::row::{BOTH, EVERY_WAY, Row, row};

/// Cameras without a quirk, which every other row is compared with.
const CONTROL: &[Row] = &[row("control", "", "")
    .does("The camera does all as the standards say.", &[])
    .by(EVERY_WAY, BOTH)];

/// Returns every row of the table.
pub(crate) fn rows() -> impl Iterator<Item = &'static Row> {
    let parts = [
        CONTROL,
        answers::ROWS,
        heads::ROWS,
        descriptions::ROWS,
        packets::ROWS,
    ];
    parts.into_iter().flatten()
}
