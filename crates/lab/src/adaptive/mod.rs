//! How a server adapts a stream with layers to the path of a viewer, in virtual time.
//!
//! ```text
//!  Encoders ─ frames of each layer ─► hub ─► ServerEnd: session, sender ──► Path ──► ViewerEnd: session
//!     ▲                                         ▲    under test       bottleneck,       Decoder
//!     └──── keyframe wanted ────────────────────┘◄─── feedback ◄───── TCP beside it ◄─────┘
//!                                                     Ledger ─► Figures ─► Report, pictures
//! ```
//!
//! Sessions, feedback, repairs and the sender are the server's. Publisher, path and the browser's
//! assembly of frames are models. Cases follow RFC 8867, figures RFC 8868.

mod arm;
mod bulk;
mod case;
mod cases;
mod connection;
mod decoder;
mod drawing;
mod experiment;
mod figures;
mod frame_tag;
mod gcc;
mod ledger;
mod moment;
mod outcome;
mod path;
mod receipts;
mod report;
mod scene;
mod server;
mod share;
mod source;
mod target;
mod tcp;
#[cfg(test)]
mod tests;
mod viewer;
mod viewing;

pub use arm::{Arm, UnknownArm};
pub use case::{Case, Flow, Traffic, Viewing};
pub use cases::{UnknownCase, all, named};
pub use drawing::draw;
pub use experiment::{Plan, Played};
pub use figures::Figures;
pub use ledger::Sample;
pub use moment::Moment;
pub use outcome::{Run, ViewerRun};
pub use path::{LinkSchedule, Step};
pub use report::Report;
pub use scene::play;
pub use source::{Content, Keyframes, PublishedVideo};
pub use target::{Bound, Figure, Target};
