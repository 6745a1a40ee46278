//! This server as one of a cluster: who it is, and the streams that it pulls from other servers.
//!
//! ```text
//! viewer asks for a name ─► Directory::begin ─► Origins: which server has it ─► Pull: start, replace, end
//!                                 └ hub stream, waited for by the viewer's listener   │ events
//!      hub ◄─ take over at a keyframe ─ pull::driver ◄─ pull::reception ◄─ units ─────┘
//! ```
//!
//! A stream is pulled once for all viewers, while somebody needs it. [`Pull`] does not decide from
//! where: today that is a list in the configuration ([`origins`]).

mod identity;
mod origins;
mod pull;
mod ticket;

pub(crate) use identity::{Identity, Provenances};
pub(crate) use origins::{Directory, Settings};
#[expect(
    unused_imports,
    reason = "the interface for whatever else decides where streams are pulled from"
)]
pub(crate) use pull::{Pull, PullEvent, PullFailure, PullSource, Pulls};
pub(crate) use ticket::{TicketError, verify};
