//! Where the milliseconds of a voice call went.
//!
//! ```text
//! Spoken, Heard: both ends' records ─► Join ─┐
//! logs and traces of other engines ─► import ─┴─► Delays of each Stage ─► Report ─► text, CSV, JSON, SVG
//! ```

pub mod frame;
pub mod import;
pub mod join;
pub mod report;
pub mod stage;
pub mod table;

pub use frame::{Delay, Frame};
pub use import::Importer;
pub use join::{Again, Join};
pub use report::Report;
pub use stage::{Role, Stage};
pub use table::{Delays, Table, Unit};
