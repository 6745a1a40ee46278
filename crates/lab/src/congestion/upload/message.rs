//! Messages in the streams of an upload: zeros behind a header of 16 bytes, by which the receiver
//! finds the pings among the frames.

use bytes::Bytes;

/// Bytes of a message's header, which count in its length.
pub(super) const HEADER_BYTES: u32 = 16;

/// Bytes of a ping and of its answer.
pub(super) const PING_BYTES: u32 = 32;

/// Content of all messages.
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// `bytes` zeros, at most 64 KiB, without a copy.
pub(super) fn zeros(bytes: u64) -> Bytes {
    let bytes = usize::try_from(bytes).unwrap_or(ZEROS.len());
    Bytes::from_static(&ZEROS[..bytes.min(ZEROS.len())])
}

/// Kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// A frame, a piece of audio, or filler.
    Media = 1,
    /// A message that must be answered.
    Ping = 2,
}

/// A message to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) kind: Kind,
    /// Length in bytes, including the header.
    pub(super) bytes: u32,
    /// Number of the ping.
    pub(super) number: u64,
}

impl Message {
    pub(super) fn media(bytes: u64) -> Self {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        Self {
            kind: Kind::Media,
            bytes: bytes.max(HEADER_BYTES),
            number: 0,
        }
    }

    pub(super) const fn ping(number: u64) -> Self {
        Self {
            kind: Kind::Ping,
            bytes: PING_BYTES,
            number,
        }
    }

    pub(super) fn header(self) -> [u8; HEADER_BYTES as usize] {
        let mut header = [0; HEADER_BYTES as usize];
        header[0] = self.kind as u8;
        header[4..8].copy_from_slice(&self.bytes.to_be_bytes());
        header[8..].copy_from_slice(&self.number.to_be_bytes());
        header
    }
}

/// Finds the messages in the bytes of a stream as they arrive.
#[derive(Clone, Debug, Default)]
pub(super) struct Parser {
    header: [u8; HEADER_BYTES as usize],
    /// Bytes of the header that were read.
    read: usize,
    /// Bytes of the message that are still to come.
    left: u32,
}

impl Parser {
    /// Reads `chunk`; calls `ping` with the number of every ping that is complete.
    pub(super) fn read(&mut self, mut chunk: &[u8], mut ping: impl FnMut(u64)) {
        while !chunk.is_empty() {
            if self.read < self.header.len() {
                let bytes = chunk.len().min(self.header.len() - self.read);
                self.header[self.read..][..bytes].copy_from_slice(&chunk[..bytes]);
                self.read += bytes;
                chunk = &chunk[bytes..];
                if self.read < self.header.len() {
                    return;
                }
                let bytes = u32::from_be_bytes(self.header[4..8].try_into().expect("4 bytes"));
                self.left = bytes.saturating_sub(HEADER_BYTES);
            }
            let bytes = chunk.len().min(self.left as usize);
            self.left -= bytes as u32;
            chunk = &chunk[bytes..];
            if self.left == 0 {
                self.read = 0;
                if self.header[0] == Kind::Ping as u8 {
                    ping(u64::from_be_bytes(
                        self.header[8..].try_into().expect("8 bytes"),
                    ));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pings_are_found_however_the_bytes_are_cut(
            pings in prop::collection::vec(any::<Option<u64>>(), 0..20),
            cuts in prop::collection::vec(1usize..70, 1..40),
        ) {
            let mut bytes = Vec::new();
            for ping in &pings {
                let message = ping.map_or(Message::media(50), Message::ping);
                bytes.extend(message.header());
                bytes.resize(bytes.len() + message.bytes as usize - 16, 0);
            }
            let mut parser = Parser::default();
            let mut found = Vec::new();
            let mut rest = bytes.as_slice();
            for cut in cuts.iter().cycle().take_while(|_| true) {
                let (chunk, next) = rest.split_at((*cut).min(rest.len()));
                parser.read(chunk, |number| found.push(number));
                rest = next;
                if rest.is_empty() {
                    break;
                }
            }
            let expected: Vec<u64> = pings.iter().copied().flatten().collect();
            prop_assert_eq!(found, expected);
        }
    }
}
