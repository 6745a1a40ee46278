use std::time::Instant;

use glassline_media::TrackIndex;

use super::core::{Core, RequestedTrack, State, check_status};
use super::{Closed, Event, RequestedTransport, TRACKS_MAX};
use crate::message::{Method, Response};
use crate::range::Range;
use crate::sdp::{self, Presentation};

/// A stream that a client publishes (RFC 2326 §10.3).
#[derive(Clone, Debug, PartialEq)]
pub struct Announcement {
    /// Description of the stream. Its control URLs are those of [`sdp::control`], below the URL of
    /// the client.
    pub presentation: Presentation,
    /// Transport of each track of the presentation, in the same order. Tracks beyond the shorter of
    /// the two lists are not set up.
    pub transports: Vec<RequestedTransport>,
}

impl Core {
    /// Keeps `announcement` for the time when the server has answered OPTIONS. Returns the largest
    /// channel of its interleaved tracks.
    pub(super) fn announce_later(&mut self, announcement: Announcement) -> u8 {
        let Announcement {
            presentation,
            transports,
        } = announcement;
        let base = self.url.trim_end_matches('/');
        let tracks = TrackIndex::first(presentation.tracks.len());
        self.controls = tracks
            .map(|track| format!("{base}/{}", sdp::control(track)))
            .collect();
        let tracks = TrackIndex::first(presentation.tracks.len());
        let numbered = tracks
            .zip(transports)
            .zip((0..=u8::MAX).step_by(2))
            .take(TRACKS_MAX);
        self.wanted = numbered
            .map(|((track, transport), channel)| RequestedTrack {
                track,
                transport,
                asked: (channel, channel + 1),
                channels: (channel, channel + 1),
            })
            .collect();
        self.announcement = Some(presentation);
        self.wanted.last().map_or(0, |wanted| wanted.channels.1)
    }

    /// Sends ANNOUNCE with the description.
    pub(super) fn announce(&mut self, now: Instant) {
        let Some(presentation) = &self.announcement else {
            return;
        };
        let url = self.url.clone();
        let base = url.trim_end_matches('/');
        let body = presentation.at(base).to_string();
        self.send(now, Method::Announce, &url, |request| {
            request.headers.push("Content-Type", "application/sdp");
            request.body = body.into_bytes();
        });
    }

    /// Handles the response to ANNOUNCE.
    pub(super) fn announced(&mut self, now: Instant, response: &Response) -> Result<(), Closed> {
        check_status(&Method::Announce, response)?;
        if self.wanted.is_empty() {
            return Err(Closed::NothingToPlay);
        }
        self.set_up_from(now, 0);
        Ok(())
    }

    /// Sends RECORD, when all tracks are set up.
    pub(super) fn record(&mut self, now: Instant) {
        self.state = State::Starting;
        let url = self.control.clone();
        self.send(now, Method::Record, &url, |request| {
            request.headers.push("Range", &Range::ALL.to_string());
        });
    }

    /// Handles the response to RECORD.
    pub(super) fn recording(&mut self, now: Instant, response: &Response) -> Result<(), Closed> {
        check_status(&Method::Record, response)?;
        self.state = State::Playing;
        self.arm_keep_alive(now);
        self.events.push_back(Event::Recording);
        Ok(())
    }
}
