//! This server as one of a cluster: who it is, and the streams that it pulls from other servers.
//!
//! ```text
//! viewer asks for a name ─► Directory::begin ─► Origins: which server has it ─► Pull: start, replace, end
//!                                 └ hub stream, waited for by the viewer's listener   │ events
//!      hub ◄─ take over at a keyframe ─ pull::driver ◄─ pull::reception ◄─ units ─────┘
//! ```
//!
//! A stream is pulled once for all viewers, while somebody needs it. `pull` does not decide from
//! where: that is a list in the configuration (`origins`), or the servers agree through NATS
//! (`member`).

// This crate is outside the sans-IO cores: claims end and streams move by the clock.
#![expect(
    clippy::disallowed_methods,
    reason = "the shell reads the clock for the cores"
)]

mod asked;
mod identity;
mod member;
mod origins;
mod pull;
mod ticket;
mod viewer_ticket;

pub use identity::{Identity, Provenances};
pub use member::{
    Asker, ClaimRefusal, Counts, Crowding, Draining, Elsewhere, EngineView, HeldName, HeldRoom,
    Member, MemberSettings, MemberView, Names, NodeView, NodesView, NotHandedOn, NotHere,
    OpenedRequest, Owner, PulledView, Reachable, RequestPlace, by_calendar, without_credentials,
};
pub use origins::Directory;
pub use pull::Pulls;
pub use ticket::{TicketError, verify};
pub use viewer_ticket::{Destination, Grant, in_query};
