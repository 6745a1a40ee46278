//! A publisher's session: the announced tracks and their transports.

use std::sync::Arc;
use std::time::Instant;

use glassline_hub::{Hub, State, StreamName};
use glassline_media::{NtpTime, Ssrc, TrackIndex};
use glassline_rtsp::mikey;
use glassline_rtsp::sdp::Description;
use glassline_rtsp::server::{Answer, Refusal, Srtp};

use glassline_egress::rtsp::{NumberKeys, TrackSrtp, TrackTransport, TrackTransports};
use glassline_ingest::NameClaim;
use glassline_ingest::rtsp::{Recording, Reporter};
use glassline_ingest::stream_names;

/// A publisher's session, from its ANNOUNCE on.
#[derive(Debug)]
pub(super) struct PublishSession {
    pub(super) recording: Recording,
    /// The transport of each announced track.
    pub(super) transports: TrackTransports,
    /// SSRC of the server's reports to the publisher.
    ssrc: Ssrc,
    /// The key management message of each announced track, if the announcement has one.
    announced_keys: Vec<Option<String>>,
    /// Buffer for a decrypted packet, empty between calls and kept for its capacity.
    clear: Vec<u8>,
}

/// Returns the name of the stream that is announced under `path`.
///
/// # Errors
/// Returns the answer with the reason: no stream can have the name, or a source of this server has it.
pub(super) fn announced_name(hub: &Hub, path: &str) -> Result<StreamName, Answer> {
    let refused = |why: &dyn std::fmt::Display| {
        tracing::info!(path, "publisher refused: {why}");
        Answer::Explained {
            refusal: Refusal::Forbidden,
            why: why.to_string(),
        }
    };
    let name = stream_names::parse(path).map_err(|error| refused(&error))?;
    hub.check_client(&name).map_err(|error| refused(&error))?;
    Ok(name)
}

/// The name of a stream to be published.
pub(super) struct ClaimedName {
    pub(super) name: StreamName,
    /// The client's claim among several servers, if there are any.
    pub(super) claim: Option<Box<dyn NameClaim>>,
}

impl PublishSession {
    /// Prepares to publish the announced tracks under a name.
    ///
    /// # Errors
    /// Returns the refusal to answer with.
    pub(super) fn announce(
        hub: &Arc<Hub>,
        keys: &NumberKeys,
        ClaimedName { name, claim }: ClaimedName,
        description: &Description,
        now: Instant,
    ) -> Result<Self, Refusal> {
        let reporter = Reporter {
            ssrc: keys.receiver(&name),
            cname: keys.cname(&name),
        };
        let ssrc = reporter.ssrc;
        let recording = Recording::announce(hub, (name, claim), reporter, description, now)?;
        let tracks = description.tracks.iter();
        Ok(Self {
            recording,
            transports: TrackTransports::default(),
            ssrc,
            announced_keys: tracks.map(|media| media.key_management.clone()).collect(),
            clear: Vec::new(),
        })
    }

    /// Returns the SRTP of announced track `track`, whose earlier transport was `before`.
    ///
    /// # Errors
    /// Returns the refusal if the publisher gave no keys, neither in its announcement nor now.
    pub(super) fn srtp(
        &self,
        track: TrackIndex,
        before: Option<Box<TrackSrtp>>,
        offered: &Srtp,
    ) -> Result<Box<TrackSrtp>, Refusal> {
        let announced = self
            .announced_keys
            .get(track.get())
            .and_then(Option::as_deref);
        let announced = announced.and_then(|text| mikey::Keys::from_base64(text).ok());
        let keys = offered.keys.as_ref().or(announced.as_ref());
        let srtp = TrackSrtp::renew(before, None, track, self.ssrc, keys)?;
        if !srtp.knows_client() {
            return Err(Refusal::NoKeys);
        }
        Ok(srtp)
    }

    /// Sets the transport of an announced track. Returns the key management message for the
    /// publisher, with the keys of the server's reports.
    pub(super) fn set_up(
        &mut self,
        track: TrackIndex,
        transport: TrackTransport,
        time: NtpTime,
    ) -> Option<String> {
        if let TrackTransport::Udp { .. } = transport {
            self.recording.comes_by_datagrams(track);
        }
        let keys = transport.srtp().map(|srtp| srtp.message(time));
        self.transports.set(track, transport);
        keys
    }

    /// Takes a packet of announced track `track`; false if the packet is SRTP that the
    /// publisher's keys do not open.
    pub(super) fn take(
        &mut self,
        track: TrackIndex,
        control: bool,
        bytes: &[u8],
        now: Instant,
    ) -> bool {
        let transport = self.transports.get_mut(track);
        let Some(srtp) = transport.and_then(TrackTransport::srtp_mut) else {
            self.recording.take(track, control, bytes, now);
            return true;
        };
        let opened = srtp.open(control, bytes, &mut self.clear);
        let is_authentic = opened.is_some();
        if let Some(bytes) = opened {
            self.recording.take(track, control, bytes, now);
        }
        is_authentic
    }

    /// Ends the session. If the stream was this publisher's, it is down for `reason`.
    pub(super) fn leave(self, reason: String) {
        self.recording.leave(State::Down { detail: reason });
    }
}
