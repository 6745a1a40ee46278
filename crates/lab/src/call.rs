//! Where the milliseconds of a voice call went.
//!
//! ```text
//! records of both ends ─► join ─┐
//! logs of other engines ─► import ─┴─► Delays of each stage ─► Table ─► text, CSV, JSON, SVG
//! ```

pub mod stage;
pub mod table;

pub use stage::{Role, Stage};
pub use table::{Delays, Table, Unit};
