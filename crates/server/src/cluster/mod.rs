//! This server as one of a cluster: who it is, and the streams that it pulls from other servers.
//!
//! ```text
//! viewer asks for a name ─► Directory::begin ─► Origins: which server has it ─► Pull: start, replace, end
//!                                 └ hub stream, waited for by the viewer's listener   │ events
//!      hub ◄─ take over at a keyframe ─ pull::driver ◄─ pull::reception ◄─ units ─────┘
//! ```
//!
//! A stream is pulled once for all viewers, while somebody needs it. [`pull`] does not decide from
//! where: that is a list in the configuration ([`origins`]), or the servers agree through NATS
//! ([`member`]).

mod asked;
mod identity;
mod member;
mod origins;
mod pull;
mod ticket;
mod viewer_ticket;

pub(crate) use identity::{Identity, Provenances};
pub(crate) use member::{
    ClaimRefusal, Crowding, Draining, Elsewhere, Member, MemberSettings, MemberView, NodesView,
    NotHandedOn, NotHere, Owner, Reachable, by_calendar, without_credentials,
};
pub(crate) use origins::Directory;
pub(crate) use pull::Pulls;
pub(crate) use ticket::{TicketError, verify};
pub(crate) use viewer_ticket::{Destination, Grant, in_query};
