//! Chaos: a server under attack, and what its good viewers lose meanwhile.
//!
//! ```text
//! Plan ─► Deployment: server, publishers, groups of viewers: processes of their own
//!             ▲                        │ a Sample each second     │ /proc, answers
//! Schedule ─ Action ─► attack ─► Outcome                          ▼
//!   (seed)                        └───► Record ◄─ account ◄─ Monitor: memory, descriptors, clocks
//!                                          └─► Report: table, JSON, CSV, SVG, what was missed
//! ```
//!
//! Everything runs on this machine, and attacks go to loopback only. The harness measures its own
//! processor time and how long the machine keeps it waiting, so that a starved machine is told
//! apart from a weak server.

mod account;
mod action;
mod attack;
mod clock;
mod configuration;
mod deployment;
mod error;
mod fleet;
mod group;
mod monitor;
mod plan;
mod probe;
mod program;
mod record;
mod report;
mod run;
mod schedule;
mod watch;

pub use action::{Action, Kind, UnknownKind};
pub use attack::{Concerns, Interruption, Outcome};
pub use error::Error;
pub use group::Origin;
pub use monitor::Observation;
pub use plan::{Plan, Strength};
pub use probe::Answer;
pub use report::{ActionReport, Answers, Footprint, Group, Report, Second, draw, table, to_csv};
pub use run::{Progress, Watcher, run};
pub use watch::{Audience, FREEZE_MIN, Freeze, Sample, watch};
