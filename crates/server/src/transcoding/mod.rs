//! Transcodes audio that browsers cannot play, once for each stream, while somebody needs it.
//!
//! ```text
//!  sessions ─ lease ─► Transcoders ─ Job ─► thread: Worker
//!                                            │ StreamSubscription of the hub: coded frames
//!                                            │ AudioTranscoder (crate `transcode`): Opus frames
//!                                            └► RenditionPublisher of the hub ─► shards ─► viewers
//! ```
//!
//! A viewer holds a [`TranscodingLease`] for each track that it gets transcoded. The track is
//! negotiated before anything is decoded; decoding begins with the first viewer whose handshake is
//! done, and ends some seconds after the last one left. The number of jobs is bounded; their input
//! waits in the hub's ring and is dropped when it is late. Decoders read what strangers publish, so a
//! panic ends one job, and the threads are not those that send media.

mod browser;
mod job;
mod threads;
mod transcoders;
mod worker;

pub(crate) use browser::{BrowserTracks, BrowserView};
pub(crate) use job::TranscodingView;
pub(crate) use threads::TranscodingThreads;
pub(crate) use transcoders::{Transcoders, TranscodingLease};
