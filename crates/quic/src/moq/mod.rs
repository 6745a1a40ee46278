//! Media over QUIC: broadcasts published to a server, and read from one.
//!
//! ```text
//! connect ─► Session ─ publish ─► Broadcast ─ write(frame) ─► group per keyframe ─► stream
//! Server ─ accept ─► Knock ─► Asked ─ grant ─► Session ─ announced, watch ─► Watch ─► Reader
//! ```
//!
//! The wire is moq-lite (`moq-net`), on QUIC itself or on WebTransport; what is in a
//! broadcast is said by its catalog (`hang`'s format, with the legacy container). Both
//! change often, so nothing of them is seen outside of this module, and both were kept
//! small: catalogs, the container and WebTransport's session are read here, because the
//! crates for them bring a JSON and regular expression tower, licences that are not
//! ours, and the certificates of a browser.
//!
//! Groups that are later than their deadline are reset rather than queued, audio is sent
//! before frame, and the newest group of a track before the ones it had.

// A shell: sessions run on tokio and read its clock.
#![expect(
    clippy::disallowed_methods,
    reason = "sessions run on sockets and read the clock"
)]

mod address;
mod broadcast;
mod catalog;
mod codec;
mod ended;
mod error;
mod frame;
mod offer;
mod pulse;
mod refusal;
mod server;
mod session;
mod stream;
mod transport;
mod version;
mod watch;
mod web;

#[cfg(test)]
mod tests;

pub use address::{Address, AddressError, PORT};
pub use broadcast::{Broadcast, Lane, WriteError};
pub use catalog::{Catalog, CatalogError, LeftOut, Rendition};
pub use codec::{Framing, is_carried};
pub use ended::Ended;
pub use frame::{BYTES_MAX as FRAME_BYTES_MAX, Frame, FrameError, parse as parse_frame};
pub use offer::Offer;
pub use pulse::{Report, RoundTrips};
pub use refusal::Refusal;
pub use server::{AskError, Asked, Grant, Knock, Server};
pub use session::{Aim, Announced, Announcement, ConnectError, Figures, Options, Session, connect};
pub use watch::{Reader, Received, Watch, WatchError};
pub use web::HandshakeError;
