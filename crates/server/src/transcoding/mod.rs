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

mod browser;
mod hindrance;
mod hints;
mod job;
mod ladders;
mod lateness;
mod program;
mod source;
mod threads;
mod transcoders;
mod video_work;
mod work;
mod worker;

pub(crate) use browser::{
    BrowserTracks, BrowserView, ENCODED_AGAIN, Hindered, Substitutes, VideoWish,
};
pub(crate) use hindrance::Hindrance;
pub(crate) use hints::hint;
pub(crate) use job::TranscodingView;
pub(crate) use ladders::keep_ladders;
pub(crate) use threads::TranscodingThreads;
pub(crate) use transcoders::{Limits, Transcoders, TranscodingLease, TranscodingTerms, VideoRules};
