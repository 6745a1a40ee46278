//! Application data of an association: records under the keys of its handshake.

use super::Progress;
use super::record::{self, ContentType, OpenError, Opener, RecordCounts, Sealer};
use super::tap::Taps;
use crate::srtp::Role;

/// Most records of data that are kept if they arrive before the handshake's last flight: the
/// peer's first packets, which it would otherwise repeat only after a second.
const EARLY_RECORDS_MAX: usize = 8;
/// Most bytes of such records that are kept.
const EARLY_BYTES_MAX: usize = 8 * 1500;

/// Application data of an association.
#[derive(Default)]
pub(super) struct ApplicationData {
    /// Keys of the handshake, client's and server's, until it is done.
    pub(super) taps: Taps,
    pub(super) records: Option<Records>,
    /// Records that arrived before there were keys.
    pub(super) early: Vec<Box<[u8]>>,
    pub(super) counts: RecordCounts,
    /// Whether either end has closed.
    pub(super) closed: bool,
}

/// Record layers of both directions.
pub(super) struct Records {
    pub(super) sealer: Sealer,
    pub(super) opener: Opener,
}

impl ApplicationData {
    /// Takes over the keys of the handshake. Returns false if the handshake did not provide
    /// them.
    pub(super) fn connect(&mut self, role: Role) -> bool {
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

    /// Decrypts the records of a datagram that are ours. Returns the records for the handshake,
    /// if any, and the effect of an alert or a refused record.
    pub(super) fn take(
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
                // The peer may still need our last flight. Once it has sent data, records that
                // look like a handshake are not from the peer.
                handshake.get_or_insert_default().extend_from_slice(record);
            }
        }
        (handshake, result)
    }

    #[inline]
    pub(super) fn open(
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
                    return Ok(alert_progress(payload));
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

/// Returns how an alert ends the association (RFC 5246 §7.2). Warnings other than close_notify
/// do not end it.
fn alert_progress(alert: &[u8]) -> Option<Progress> {
    const CLOSE_NOTIFY: u8 = 0;
    const FATAL: u8 = 2;
    match *alert {
        [_, CLOSE_NOTIFY] => Some(Progress::CloseNotify),
        [FATAL, description] => Some(Progress::FatalAlert(description)),
        _ => None,
    }
}
