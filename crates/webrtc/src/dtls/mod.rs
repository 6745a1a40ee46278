//! DTLS: adapter of the `dimpl` crate, the certificate, and the records of data channels.
//!
//! Only DTLS 1.2 is used. As the passive end of 1.2, `dimpl` agrees on AEAD_AES_256_GCM for SRTP
//! with every peer that was tried. With 1.3, and as the active end, browsers agree on SHA1_80, which
//! costs four times as much.
//!
//! `dimpl` runs the handshake. ApplicationData channels then use our own records ([`record`]) under the keys of
//! that handshake: records of `dimpl` draw random nonces under GCM, which is not safe for bulk data,
//! and cost three times as much. `docs/decisions/0005-data-record-protection.md` has the figures
//! and the alternatives.
//!
//! ```text
//!  datagram ─┬─ application data, alerts of epoch 1 ─► record::Opener ─► SCTP packets
//!            └─ the rest ─► dimpl ─► Finished ─► tap ─► keys of both directions
//! ```

mod application_data;
mod certificate;
mod cipher;
mod client_hello;
mod curves;
mod fastest;
mod handshake_trace;
pub mod record;
mod replay;
mod tap;
#[cfg(test)]
mod tests;

pub use certificate::{Certificate, GenerateError};
pub use cipher::{Cipher, CipherChoice, UnknownCipher};
pub use handshake_trace::{Flight, HandshakeTrace};

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use dimpl::{Dtls, Output};

use crate::sdp::Fingerprint;
use crate::srtp::{Profile, Role};

use application_data::ApplicationData;
use certificate::has_fingerprint;
use record::{ContentType, OpenError, RecordCounts, Sealer};

/// Most datagrams of the handshake that wait to be sent. Our flights have at most six; more is
/// a flood.
const DATAGRAMS_QUEUED_MAX: usize = 16;

/// Shortest time before a client's last flight is repeated, which is what RFC 6347 §4.2.4.1
/// recommends for every flight.
///
/// The server answers that flight and has then finished its handshake, so that a copy arrives at an
/// end which is done. FFmpeg up to 8.1 handles such a copy wrongly: from then on each packet that it
/// sends waits for something to read. Browsers do not depend on this time: they are the clients.
const LAST_FLIGHT_REPEAT_AFTER: Duration = Duration::from_secs(1);

/// Result of the handshake, or how the association ended.
#[derive(Debug)]
pub(crate) enum Progress {
    /// The handshake is done, and the peer's certificate has an announced fingerprint.
    Connected {
        role: Role,
        /// SRTP profile and keys; `None` if the peer agreed to no profile.
        srtp: Option<(Profile, Material)>,
    },
    /// The peer's certificate has none of the announced fingerprints.
    WrongFingerprint,
    Failed(dimpl::Error),
    /// The peer ended the association after the handshake with this alert (RFC 5246 §7.2).
    FatalAlert(u8),
    CloseNotify,
}

/// Exported keying material, which `Debug` does not print.
#[derive(derive_more::Debug)]
#[debug("Material")]
pub(crate) struct Material(pub(crate) dimpl::KeyingMaterial);

/// One DTLS association.
///
/// It is kept after the handshake, because the peer may need the last flight again and closes
/// with close_notify.
#[derive(derive_more::Debug)]
#[debug("Association {{ role: {role:?}, verified: {verified:?}, .. }}")]
pub(crate) struct Association {
    dtls: Box<Dtls>,
    expected: Vec<Fingerprint>,
    verified: bool,
    connected: bool,
    keys: Option<(dimpl::KeyingMaterial, Profile)>,
    role: Role,
    datagrams: VecDeque<Box<[u8]>>,
    /// The time at which `dimpl` repeats a flight or gives up.
    deadline: Option<Instant>,
    /// Earliest time at which this end, as a client, repeats its last flight.
    not_before: Option<Instant>,
    failed: bool,
    trace: Box<HandshakeTrace>,
    /// Records of data; `None` where application data is not used and is dropped.
    data: Option<Box<ApplicationData>>,
}

impl Association {
    /// Creates an association. `data`: the ciphers to use, for sessions with data channels.
    pub(crate) fn new(
        certificate: &Certificate,
        role: Role,
        expected: Vec<Fingerprint>,
        data: Option<CipherChoice>,
        now: Instant,
    ) -> Self {
        let mut dtls = Dtls::new_12(certificate.config(data), certificate.for_dimpl(), now);
        dtls.set_active(role == Role::Client);
        Self {
            dtls: Box::new(dtls),
            expected,
            verified: false,
            connected: false,
            keys: None,
            role,
            datagrams: VecDeque::new(),
            deadline: None,
            not_before: None,
            failed: false,
            trace: Box::default(),
            data: data.map(|_| Box::default()),
        }
    }

    /// Begins the handshake if this end is the client. Call it once ICE has a path.
    pub(crate) fn start(&mut self, now: Instant) -> Option<Progress> {
        self.handle_timeout(now)
    }

    /// Handles one datagram. Records of application data are decrypted in place and passed to
    /// `packet`, one call per record.
    ///
    /// # Errors
    /// [`OpenError`] of the last record that was refused; the other records had their effect.
    pub(crate) fn handle_datagram(
        &mut self,
        now: Instant,
        datagram: &mut [u8],
        packet: impl FnMut(&mut [u8]),
    ) -> Result<Option<Progress>, OpenError> {
        let Some(data) = &mut self.data else {
            return Ok(self.handle_handshake(now, datagram));
        };
        let (handshake, progress) = data.take(datagram, packet);
        if let Ok(Some(Progress::CloseNotify)) = progress {
            self.send_close_notify();
        }
        match (handshake, progress) {
            (None, progress) => progress,
            (Some(records), Ok(None) | Err(_)) => Ok(self.handle_handshake(now, &records)),
            (Some(_), ended) => ended,
        }
    }

    /// Decrypts the records that arrived before the handshake was done. Call it after
    /// [`Progress::Connected`].
    pub(crate) fn open_early(&mut self, mut packet: impl FnMut(&mut [u8])) {
        let Some(data) = &mut self.data else {
            return;
        };
        for mut record in std::mem::take(&mut data.early) {
            // A record that is refused is counted, and nothing else is to be done.
            let _ = data.open(&mut record, &mut packet);
        }
    }

    /// Returns the sender side of application data, from the end of the handshake until the
    /// close.
    #[inline]
    pub(crate) fn sealer(&mut self) -> Option<&mut Sealer> {
        let data = self.data.as_mut().filter(|data| !data.closed)?;
        Some(&mut data.records.as_mut()?.sealer)
    }

    /// Returns the counts of application data records; `None` where none are used.
    pub(crate) fn record_counts(&self) -> Option<RecordCounts> {
        Some(self.data.as_ref()?.counts)
    }

    fn handle_handshake(&mut self, now: Instant, datagram: &[u8]) -> Option<Progress> {
        if self.failed {
            return None;
        }
        self.trace.note_received(datagram);
        let result = self
            .dtls
            .handle_timeout(self.before_deadline(now))
            .and_then(|()| self.dtls.handle_packet(datagram));
        self.settle(result, now)
    }

    /// Returns `now`, or the last instant before a deadline that has passed.
    ///
    /// `dimpl` learns the time from `handle_timeout` alone, which repeats a flight that is due. Where
    /// this end was late to read, the answer to that flight may be what is read next.
    fn before_deadline(&self, now: Instant) -> Instant {
        let passed = self.deadline.filter(|at| *at <= now);
        let before = passed.and_then(|at| at.checked_sub(Duration::from_nanos(1)));
        before.unwrap_or(now)
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant) -> Option<Progress> {
        if self.failed || self.poll_timeout().is_some_and(|at| now < at) {
            return None;
        }
        let result = self.dtls.handle_timeout(now);
        self.settle(result, now)
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.deadline
            .map(|at| self.not_before.map_or(at, |earliest| at.max(earliest)))
    }

    /// Returns what was sent and received of the handshake.
    pub(crate) fn trace(&self) -> &HandshakeTrace {
        &self.trace
    }

    /// Returns this end's role.
    pub(crate) const fn role(&self) -> Role {
        self.role
    }

    /// Returns the next datagram to send.
    pub(crate) fn poll_transmit(&mut self) -> Option<Box<[u8]>> {
        let datagram = self.datagrams.pop_front();
        if self.datagrams.is_empty() {
            self.datagrams = VecDeque::new();
        }
        datagram
    }

    /// Queues a sealed datagram.
    pub(crate) fn queue(&mut self, datagram: Vec<u8>) {
        if self.datagrams.len() < DATAGRAMS_QUEUED_MAX {
            self.datagrams.push_back(datagram.into());
        }
    }

    /// Sends close_notify. Before the handshake is done there is no peer to send it to.
    pub(crate) fn close(&mut self, now: Instant) {
        if self.send_close_notify() || self.failed {
            return;
        }
        let result = self
            .dtls
            .handle_timeout(now)
            .and_then(|()| self.dtls.close());
        self.settle(result, now);
    }

    /// Seals close_notify once if application data is ours. Returns whether it is.
    fn send_close_notify(&mut self) -> bool {
        let Some(data) = &mut self.data else {
            return false;
        };
        let Some(records) = &mut data.records else {
            return false;
        };
        if !std::mem::replace(&mut data.closed, true) {
            const CLOSE_NOTIFY: [u8; 2] = [1, 0];
            let sealer = &mut records.sealer;
            let (offset, bytes) = (sealer.payload_offset(), sealer.overhead() + 2);
            let mut record = vec![0; bytes];
            record[offset..offset + 2].copy_from_slice(&CLOSE_NOTIFY);
            // A used-up key cannot seal close_notify either; the peer notices the silence.
            if sealer.seal(ContentType::Alert, &mut record, 2).is_ok() {
                self.datagrams.push_back(record.into());
            }
        }
        true
    }

    fn settle(&mut self, result: Result<(), dimpl::Error>, now: Instant) -> Option<Progress> {
        let drained = self.drain(now);
        let created = tap::take_created();
        if let Some(data) = &mut self.data
            && !created.is_empty()
        {
            data.taps = created;
        }
        let drained = drained.or_else(|| self.finish());
        match result {
            Ok(()) => drained,
            Err(error) => {
                self.trace.failure = Some(error.to_string().into());
                self.failed = true;
                self.deadline = None;
                Some(drained.unwrap_or(Progress::Failed(error)))
            }
        }
    }

    /// Polls `dimpl` until it has no more output, as it requires after every input.
    fn drain(&mut self, now: Instant) -> Option<Progress> {
        let mut progress = None;
        let mut scratch = [0; 2048];
        let mut larger = Vec::new();
        loop {
            let buffer = if larger.is_empty() {
                &mut scratch[..]
            } else {
                &mut larger
            };
            match self.dtls.poll_output(buffer) {
                Output::Packet(datagram) if self.datagrams.len() < DATAGRAMS_QUEUED_MAX => {
                    self.trace.note_sent(datagram);
                    if self.trace.latest_sent == Some(Flight::ClientKeyExchange) {
                        self.not_before = Some(now + LAST_FLIGHT_REPEAT_AFTER);
                    }
                    self.datagrams.push_back(datagram.into());
                }
                Output::BufferTooSmall { needed } => larger = vec![0; needed],
                Output::Timeout(at) => {
                    self.deadline = Some(at);
                    break;
                }
                Output::PeerCert(certificate) => {
                    self.verified = has_fingerprint(certificate, &self.expected);
                    if !self.verified {
                        progress = Some(Progress::WrongFingerprint);
                    }
                }
                Output::KeyingMaterial(material, profile) => {
                    self.keys = srtp_profile(profile).map(|profile| (material, profile));
                }
                Output::Connected => self.connected = true,
                Output::CloseNotify => progress = progress.or(Some(Progress::CloseNotify)),
                _ => {}
            }
        }
        progress
    }

    /// Returns the keys once, when the handshake is done and the peer's certificate is
    /// verified.
    fn finish(&mut self) -> Option<Progress> {
        if !self.connected {
            return None;
        }
        self.connected = false;
        if !self.verified {
            return Some(Progress::WrongFingerprint);
        }
        if let Some(data) = &mut self.data
            && !data.connect(self.role)
        {
            return Some(Progress::Failed(dimpl::Error::InvalidState(
                dimpl::InvalidStateError::NoCipherSuiteSelected,
            )));
        }
        let keys = self.keys.take();
        Some(Progress::Connected {
            role: self.role,
            srtp: keys.map(|(material, profile)| (profile, Material(material))),
        })
    }
}

fn srtp_profile(profile: dimpl::SrtpProfile) -> Option<Profile> {
    match profile {
        dimpl::SrtpProfile::AES128_CM_SHA1_80 => Some(Profile::Aes128CmSha1_80),
        dimpl::SrtpProfile::AEAD_AES_128_GCM => Some(Profile::AeadAes128Gcm),
        dimpl::SrtpProfile::AEAD_AES_256_GCM => Some(Profile::AeadAes256Gcm),
        _ => None,
    }
}
