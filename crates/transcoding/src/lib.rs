//! Transcodes audio that browsers cannot play, and video that they cannot show, and encodes the lower layers
//! of ladders, once for each stream, while somebody needs it.
//!
//! ```text
//!  sessions, ladders ─ lease ─► Transcoders ─ Job ─► thread: Worker
//!                                            │ StreamSubscription of the hub: coded frames
//!                                            │ AudioTranscoder, VideoTranscoder (crate `transcode`),
//!                                            │ program: FFmpeg for what these do not decode
//!                                            └► RenditionPublisher of the hub ─► shards ─► viewers
//! ```
//!
//! A viewer holds a [`TranscodingLease`] for each track that it gets transcoded. The track is
//! negotiated before anything is decoded; decoding begins with the first viewer whose handshake is
//! done, and ends some seconds after the last one left. The number of jobs is bounded; their input
//! waits in the hub's ring and is dropped when it is late. Decoders read what strangers publish, so a
//! panic ends one job, and the threads are not those that send media. Video takes a large part of a
//! core, so each video has a thread of its own.

// This crate is outside the sans-IO cores: jobs end and snapshots age by the clock.
#![expect(
    clippy::disallowed_methods,
    reason = "the shell reads the clock for the cores"
)]

mod browser;
mod hindrance;
mod hints;
mod job;
mod ladders;
mod lateness;
mod program;
pub mod snapshots;
mod source;
mod threads;
mod transcoders;
mod video_work;
mod work;
mod worker;

pub use browser::{BrowserTracks, BrowserView, ENCODED_AGAIN, Hindered, Substitutes, VideoWish};
pub use hindrance::Hindrance;
pub use hints::hint;
pub use job::{TranscodingCost, TranscodingView};
pub use ladders::keep_ladders;
pub use threads::TranscodingThreads;
pub use transcoders::{
    Limits, Transcoders, TranscodingCounters, TranscodingLease, TranscodingRefusal,
    TranscodingTerms, VideoRules,
};
