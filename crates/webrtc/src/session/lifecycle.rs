//! The life of a session: the progress of the handshake, keys, close.

use std::time::Instant;

use super::{CloseReason, Event, Keys, Session, State, control};
use crate::TransportAddress;
use crate::dtls::{Material, Progress};
use crate::ice::PathChange;
use crate::sdp::IceCredentials;
use crate::srtp::{self, Role};

impl Session {
    /// Sets the deadline until which the peer may finish the handshake, instead of ten seconds.
    /// Beyond 25 s it has no effect, because DTLS gives up then. Ignored once connected.
    pub fn set_handshake_deadline(&mut self, deadline: Instant) {
        self.timeout = None;
        if let State::Connecting { .. } = self.state {
            self.state = State::Connecting { deadline };
        }
    }

    /// Tells the peer (RTCP BYE, DTLS close_notify) and ends the session.
    pub fn close(&mut self, now: Instant) {
        self.timeout = None;
        if self.state == State::Closed {
            return;
        }
        if self.keys.is_some() {
            self.send_bye(now);
        }
        self.abort_data(now);
        if let Some(dtls) = &mut self.dtls {
            dtls.close(now);
        }
        for allocation in &mut self.turn_allocations {
            allocation.set_now(now);
        }
        self.finish(CloseReason::Local);
    }

    /// Restarts ICE (RFC 8445 §9) with new credentials on both sides. Media continues on the
    /// old path until a new one is found.
    pub fn restart_ice(&mut self, local: IceCredentials, remote: IceCredentials, now: Instant) {
        self.timeout = None;
        self.local = local.clone();
        self.remote = Some(remote.clone());
        self.ice.restart(local, remote, now);
    }

    pub(super) fn on_path_change(&mut self, now: Instant, change: Option<PathChange>) {
        let connected = self.state == State::Connected;
        match change {
            Some(PathChange::Path(peer)) if connected => {
                self.events.push(Event::AddressChanged { peer });
            }
            Some(PathChange::Path(_)) => {
                if let Some(dtls) = &mut self.dtls
                    && dtls.poll_timeout().is_none()
                {
                    let progress = dtls.start(now);
                    self.on_progress(now, progress);
                }
            }
            // A publisher that sends no more checks is judged by its media, at the deadline.
            Some(PathChange::Disconnected) if connected && !self.ice.is_heard_by_media() => {
                self.finish(CloseReason::Vanished);
            }
            // During the handshake its own deadline decides.
            Some(PathChange::Disconnected) | None => {}
        }
    }

    /// Notes that authentic media or reports arrived from `source`.
    pub(super) fn on_authentic_media(&mut self, now: Instant, source: TransportAddress) {
        // Messages may be many bytes, and go only where the peer keeps proving to be.
        if self.data.is_none() {
            self.ice.on_media(now, source);
        }
        let change = self.ice.follow_data(now, source);
        self.on_path_change(now, change);
    }

    pub(super) fn on_progress(&mut self, now: Instant, progress: Option<Progress>) {
        match progress {
            None => {}
            Some(Progress::Connected { role, srtp }) => self.connect(now, role, srtp),
            Some(Progress::WrongFingerprint) => {
                // Nothing more is sent to an impostor, not even the queued Finished.
                self.dtls = None;
                self.finish(CloseReason::WrongFingerprint);
            }
            Some(Progress::FatalAlert(description)) => {
                let ufrag = &self.local.ufrag;
                tracing::debug!(description, ufrag, "the peer sent a fatal DTLS alert");
                self.finish(CloseReason::Peer);
            }
            Some(Progress::CloseNotify) => self.finish(CloseReason::Peer),
            // Media does not need DTLS once it has its keys.
            Some(Progress::Failed(error)) => {
                tracing::debug!(%error, ufrag = self.local.ufrag, "the DTLS association failed");
                if self.state != State::Connected {
                    self.finish(CloseReason::HandshakeFailed);
                }
            }
        }
    }

    fn connect(&mut self, now: Instant, role: Role, srtp: Option<(srtp::Profile, Material)>) {
        // A session with only data does not need SRTP, and its peer may offer none.
        let has_media = !self.senders.is_empty() || !self.receivers.is_empty();
        let profile = match srtp {
            None if has_media => {
                // The peer has keys for DTLS, and learns that nothing will come.
                if let Some(dtls) = &mut self.dtls {
                    dtls.close(now);
                }
                return self.finish(CloseReason::NoSrtpProfile);
            }
            Some((profile, material)) if has_media => {
                if self.protect_media(profile, role, &material.0).is_err() {
                    return self.finish(CloseReason::HandshakeFailed);
                }
                Some(profile)
            }
            _ => None,
        };
        self.state = State::Connected;
        self.ice.on_connected(now);
        if !self.receivers.is_empty() {
            self.reports.at = Some(now + control::REPORT_INTERVAL);
        }
        self.events.push(Event::Connected { profile });
        if let (Some(data), Some(dtls)) = (&mut self.data, &mut self.dtls) {
            data.connect(now);
            dtls.open_early(|packet| data.handle_packet(packet, now));
            data.end_batch(now);
        }
    }

    fn protect_media(
        &mut self,
        profile: srtp::Profile,
        role: Role,
        material: &[u8],
    ) -> Result<(), srtp::KeyError> {
        let (mut outbound, inbound) = srtp::derive(profile, material, role)?;
        for sender in &mut self.senders {
            sender
                .connect(&mut outbound)
                .expect("SSRCs were checked to differ");
        }
        self.keys = Some(Box::new(Keys { outbound, inbound }));
        Ok(())
    }

    /// Ends the session. Datagrams that are queued for the peer can still be polled.
    pub(super) fn finish(&mut self, reason: CloseReason) {
        if self.state == State::Closed {
            return;
        }
        self.state = State::Closed;
        self.keys = None;
        if let Some(data) = &mut self.data {
            data.disconnect();
        }
        self.events.push_last(Event::Closed(reason));
    }
}
