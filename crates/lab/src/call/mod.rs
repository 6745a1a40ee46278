//! Stage delays of voice calls, from records of both ends or from logs of other engines.
//!
//! ```text
//! dial ── POST offer, answer ──► serve     client::call runs either end; Pair runs both
//! SendStamps, PlayoutStamps of both ends ─► Join ┐ one process: Pair; two: Accounts, RoomAccounts
//! logs and traces of other engines ─► import ────┴─► Delays of each Stage ─► Report
//!                                                    Report ─► text, CSV, JSON, SVG
//! ```

pub mod accounts;
pub mod frame;
pub mod import;
pub mod join;
pub mod pair;
pub mod report;
pub mod room_accounts;
pub mod stage;
pub mod table;
#[cfg(test)]
mod tests;
mod two_way;
mod unit;

pub use accounts::Accounts;
pub use frame::{Delay, Frame};
pub use glassline_client::call::Marks;
pub use import::Importer;
pub use join::Join;
pub use pair::{Pair, PairError};
pub use report::Report;
pub use room_accounts::RoomAccounts;
pub use stage::{Role, Stage};
pub use table::{Delays, Table};
pub use two_way::TwoWay;
pub use unit::Unit;
