//! HTTP Live Streaming with low latency: `/{stream}/hls/index.m3u8`.
//!
//! ```text
//!  GET index.m3u8 ─► right to read ─► Hls::begin ─► Broadcast ◄─ Writer (a task) ◄─ hub
//!                                       │ pass        │ Rendition: playlist, files
//!  GET PASS/video0.m3u8?_HLS_msn=… ─────┴─────────────┤ waits until the playlist has the part
//!  GET PASS/video0/p17.m4s ───────────────────────────┘
//! ```
//!
//! Recordings go by the same protocol, with a right of their own: [`past`].
//!
//! A viewer has no state here. Files never change, and playlists are equal for all who ask for the same
//! part, so that a cache in front answers any number of viewers ([`pass`] says how rights fit with that).

mod aac;
mod answers;
mod audience;
mod broadcast;
mod cadence;
mod dates;
mod direct;
mod files;
mod metrics;
mod on_demand;
mod pass;
mod past;
mod protocol;
mod rendition;
mod rendition_key;
mod requests;
mod service;
mod shared;
mod stand_in;
#[cfg(test)]
mod tests;
mod track_writer;
#[cfg(test)]
mod virtual_time;
mod writer;

use axum::routing::get;
use glassline_access::auth::Action;

use crate::http::ViewerRoutes;
use crate::http::rules::Right;
pub(crate) use direct::LiveFiles;
pub(crate) use protocol::Hls;

/// Returns the routes of the protocol, each with its right. The handlers behind a pass check it, and the
/// right to read, or to watch recordings, in its place.
pub(crate) fn routes() -> ViewerRoutes {
    ViewerRoutes::of("hls")
        .route(
            "/{stream}/hls/index.m3u8",
            Right::Read,
            get(requests::index),
        )
        .passed("/{stream}/hls/{pass}/{playlist}", get(requests::playlist))
        .passed(
            "/{stream}/hls/{pass}/{rendition}/{file}",
            get(requests::file),
        )
        .route(
            "/{stream}/hls/dvr.m3u8",
            Right::Do(Action::Playback),
            get(past::requests::last_hours_index),
        )
        .route(
            "/{stream}/hls/vod.m3u8",
            Right::Do(Action::Playback),
            get(past::requests::span_index),
        )
        .route(
            "/{stream}/hls/{pass}/dvr.m3u8",
            Right::Session,
            get(past::requests::last_hours),
        )
        .route(
            "/{stream}/hls/{pass}/vod.m3u8",
            Right::Session,
            get(past::requests::span),
        )
        .route(
            "/{stream}/hls/{pass}/past/{file}",
            Right::Session,
            get(past::requests::file),
        )
}
