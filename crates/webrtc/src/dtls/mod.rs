//! The seam over `dimpl`: DTLS 1.2, the certificate, and the exported keys.
//!
//! DTLS 1.2 only: as the passive side `dimpl` then picks AEAD_AES_256_GCM with
//! every peer tried, while 1.3 and the active side end on SHA1_80 with browsers,
//! at four times the cipher cost.
//!
//! `dimpl` makes the handshake. What a data channel sends afterwards goes through
//! records of our own ([`record`]) under the handshake's keys: `dimpl`'s draw
//! random nonces under GCM, which is not safe for bulk, and cost three times as
//! much. `docs/decisions/data-record-protection.md` has figures and alternatives.
//!
//! ```text
//!  datagram ─┬─ application data, alerts of epoch 1 ─► record::Opener ─► SCTP packets
//!            └─ the rest ─► dimpl ─► Finished ─► tap ─► keys of both directions
//! ```

mod certificate;
mod cipher;
mod fastest;
pub mod record;
mod replay;
mod tap;
#[cfg(test)]
mod tests;

pub use certificate::{Certificate, GenerateError};
pub use cipher::{Cipher, CipherChoice, UnknownCipher};

use std::collections::VecDeque;
use std::time::Instant;

use dimpl::{Dtls, Output};

use crate::sdp::Fingerprint;
use crate::srtp::{Profile, Role};

use certificate::has_fingerprint;
use record::{ContentType, OpenError, Opener, RecordCounts, Sealer};
use tap::Taps;

/// Flights have at most six datagrams of ours; more waiting means a flood.
const DATAGRAMS_QUEUED_MAX: usize = 16;

/// Records of data that may overtake the handshake's last flight, and their bytes:
/// the peer's first packets, which it would otherwise repeat after a second.
const EARLY_RECORDS_MAX: usize = 8;
const EARLY_BYTES_MAX: usize = 8 * 1500;

/// What the handshake came to, or how the association ended.
#[derive(Debug)]
pub(crate) enum Progress {
    /// The handshake is done and the certificate was the expected one.
    Connected {
        role: Role,
        /// `None` if the peer agreed to no profile.
        srtp: Option<(Profile, Material)>,
    },
    WrongFingerprint,
    Failed(dimpl::Error),
    /// The peer ended it after the handshake for this reason (RFC 5246 §7.2).
    FatalAlert(u8),
    CloseNotify,
}

/// Exported keys; not printed.
pub(crate) struct Material(pub(crate) dimpl::KeyingMaterial);

impl std::fmt::Debug for Material {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Material")
    }
}

/// One DTLS association.
///
/// Kept after the handshake, because the peer may need our last flight again
/// and says goodbye with close_notify.
pub(crate) struct Association {
    dtls: Box<Dtls>,
    expected: Vec<Fingerprint>,
    verified: bool,
    connected: bool,
    keys: Option<(dimpl::KeyingMaterial, Profile)>,
    role: Role,
    datagrams: VecDeque<Box<[u8]>>,
    deadline: Option<Instant>,
    failed: bool,
    /// `None` where application data is not wanted and dropped.
    data: Option<Box<Data>>,
}

/// Application data of an association.
#[derive(Default)]
struct Data {
    /// The handshake's keys, client's and server's, until it is done.
    taps: Taps,
    records: Option<Records>,
    /// Came before the keys were there.
    early: Vec<Box<[u8]>>,
    counts: RecordCounts,
    /// Either end said goodbye.
    closed: bool,
}

struct Records {
    sealer: Sealer,
    opener: Opener,
}

impl Association {
    /// `data`: for sessions with data channels, the ciphers to use.
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
            failed: false,
            data: data.map(|_| Box::default()),
        }
    }

    /// Begins the handshake if we are the client; call once ICE has a path.
    pub(crate) fn start(&mut self, now: Instant) -> Option<Progress> {
        self.handle_timeout(now)
    }

    /// Feeds one datagram; what it holds of application data is opened in place
    /// and given to `packet`, one call a record.
    ///
    /// # Errors
    /// [`OpenError`] of the last record that was refused; the others had their effect.
    pub(crate) fn handle_datagram(
        &mut self,
        now: Instant,
        datagram: &mut [u8],
        packet: impl FnMut(&mut [u8]),
    ) -> Result<Option<Progress>, OpenError> {
        let Some(data) = &mut self.data else {
            return Ok(self.feed(now, datagram));
        };
        let (handshake, progress) = data.take(datagram, packet);
        if let Ok(Some(Progress::CloseNotify)) = progress {
            self.say_goodbye();
        }
        match (handshake, progress) {
            (None, progress) => progress,
            (Some(records), Ok(None) | Err(_)) => Ok(self.feed(now, &records)),
            (Some(_), ended) => ended,
        }
    }

    /// Opens what came before the handshake was done; call after
    /// [`Progress::Connected`].
    pub(crate) fn open_early(&mut self, mut packet: impl FnMut(&mut [u8])) {
        let Some(data) = &mut self.data else {
            return;
        };
        for mut record in std::mem::take(&mut data.early) {
            // What it counts as is all there is to know of a record that is refused.
            let _ = data.open(&mut record, &mut packet);
        }
    }

    /// Our end of application data, once the handshake is done and until the goodbye.
    #[inline]
    pub(crate) fn sealer(&mut self) -> Option<&mut Sealer> {
        let data = self.data.as_mut().filter(|data| !data.closed)?;
        Some(&mut data.records.as_mut()?.sealer)
    }

    /// Records of application data that came; `None` where none is wanted.
    pub(crate) fn record_counts(&self) -> Option<RecordCounts> {
        Some(self.data.as_ref()?.counts)
    }

    fn feed(&mut self, now: Instant, datagram: &[u8]) -> Option<Progress> {
        if self.failed {
            return None;
        }
        let result = self
            .dtls
            .handle_timeout(now)
            .and_then(|()| self.dtls.handle_packet(datagram));
        self.settle(result)
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant) -> Option<Progress> {
        if self.failed {
            return None;
        }
        let result = self.dtls.handle_timeout(now);
        self.settle(result)
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.deadline
    }

    /// The next datagram of ours, if any.
    pub(crate) fn poll_transmit(&mut self) -> Option<Box<[u8]>> {
        let datagram = self.datagrams.pop_front();
        if self.datagrams.is_empty() {
            self.datagrams = VecDeque::new();
        }
        datagram
    }

    /// Queues a datagram of ours, sealed.
    pub(crate) fn queue(&mut self, datagram: Vec<u8>) {
        if self.datagrams.len() < DATAGRAMS_QUEUED_MAX {
            self.datagrams.push_back(datagram.into());
        }
    }

    /// Says goodbye; before the handshake is done there is nobody to say it to.
    pub(crate) fn close(&mut self, now: Instant) {
        if self.say_goodbye() || self.failed {
            return;
        }
        let result = self
            .dtls
            .handle_timeout(now)
            .and_then(|()| self.dtls.close());
        self.settle(result);
    }

    /// Seals close_notify if application data is ours; true if so. Sealed once.
    fn say_goodbye(&mut self) -> bool {
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
            // A key that is used up cannot say goodbye either; the peer notices the silence.
            if sealer.seal(ContentType::Alert, &mut record, 2).is_ok() {
                self.datagrams.push_back(record.into());
            }
        }
        true
    }

    fn settle(&mut self, result: Result<(), dimpl::Error>) -> Option<Progress> {
        let drained = self.drain();
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
                self.failed = true;
                self.deadline = None;
                Some(drained.unwrap_or(Progress::Failed(error)))
            }
        }
    }

    /// Polls `dimpl` to the end, as it wants after every input.
    fn drain(&mut self) -> Option<Progress> {
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
                    self.keys = known(profile).map(|profile| (material, profile));
                }
                Output::Connected => self.connected = true,
                Output::CloseNotify => progress = progress.or(Some(Progress::CloseNotify)),
                _ => {}
            }
        }
        progress
    }

    /// Hands the keys out once, when the handshake is done and the peer is who it said.
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

impl Data {
    /// Takes over the handshake's keys; false if it did not tell them.
    fn connect(&mut self, role: Role) -> bool {
        let taps = std::mem::take(&mut self.taps);
        let [client, server] = &taps[..] else {
            return false;
        };
        let (ours, theirs) = match role {
            Role::Client => (client, server),
            Role::Server => (server, client),
        };
        self.records = ours
            .sealer()
            .zip(theirs.opener())
            .map(|(sealer, opener)| Records { sealer, opener });
        self.records.is_some()
    }

    /// Opens what is ours of a datagram; returns what is the handshake's, if
    /// anything, and what an alert or a refused record means.
    fn take(
        &mut self,
        datagram: &mut [u8],
        mut packet: impl FnMut(&mut [u8]),
    ) -> (Option<Vec<u8>>, Result<Option<Progress>, OpenError>) {
        let mut handshake: Option<Vec<u8>> = None;
        let mut result = Ok(None);
        let mut rest = datagram;
        while !rest.is_empty() {
            let Some((record, after)) = record::split(std::mem::take(&mut rest)) else {
                self.counts.malformed += 1;
                return (handshake, result.and(Err(OpenError::Malformed)));
            };
            rest = after;
            let ours = match record::content_of_epoch_1(record) {
                Some(ContentType::ApplicationData) => true,
                Some(ContentType::Alert) => self.records.is_some(),
                None => false,
            };
            if ours {
                let opened = self.open(record, &mut packet);
                if !matches!((&opened, &result), (Ok(None), _) | (_, Ok(Some(_)))) {
                    result = opened;
                }
            } else if self.counts.opened == 0 {
                // The peer may still need our last flight. Once it has sent data,
                // what looks like a handshake is a stranger's.
                handshake.get_or_insert_default().extend_from_slice(record);
            }
        }
        (handshake, result)
    }

    #[inline]
    fn open(
        &mut self,
        record: &mut [u8],
        packet: &mut impl FnMut(&mut [u8]),
    ) -> Result<Option<Progress>, OpenError> {
        let Some(records) = &mut self.records else {
            self.keep_early(record);
            return Ok(None);
        };
        let is_alert = record[0] == ContentType::Alert as u8;
        match records.opener.open(record) {
            Ok(payload) => {
                self.counts.opened += 1;
                if is_alert {
                    return Ok(ending(payload));
                }
                if !self.closed {
                    packet(payload);
                }
                Ok(None)
            }
            Err(error) => {
                self.counts.note(error);
                Err(error)
            }
        }
    }

    fn keep_early(&mut self, record: &[u8]) {
        let kept: usize = self.early.iter().map(|it| it.len()).sum();
        if self.early.len() < EARLY_RECORDS_MAX && kept + record.len() <= EARLY_BYTES_MAX {
            self.early.push(record.into());
        } else {
            self.counts.early_dropped += 1;
        }
    }
}

/// What an alert ends (RFC 5246 §7.2); warnings other than close_notify end nothing.
fn ending(alert: &[u8]) -> Option<Progress> {
    const CLOSE_NOTIFY: u8 = 0;
    const FATAL: u8 = 2;
    match *alert {
        [_, CLOSE_NOTIFY] => Some(Progress::CloseNotify),
        [FATAL, description] => Some(Progress::FatalAlert(description)),
        _ => None,
    }
}

impl std::fmt::Debug for Association {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Association")
            .field("role", &self.role)
            .field("verified", &self.verified)
            .finish_non_exhaustive()
    }
}

fn known(profile: dimpl::SrtpProfile) -> Option<Profile> {
    match profile {
        dimpl::SrtpProfile::AES128_CM_SHA1_80 => Some(Profile::Aes128CmSha1_80),
        dimpl::SrtpProfile::AEAD_AES_128_GCM => Some(Profile::AeadAes128Gcm),
        dimpl::SrtpProfile::AEAD_AES_256_GCM => Some(Profile::AeadAes256Gcm),
        _ => None,
    }
}
