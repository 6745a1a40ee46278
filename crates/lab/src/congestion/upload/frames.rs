//! Parser for the QUIC frames of a packet's plaintext, which finds STREAM frames (RFC 9000 §19).

/// A STREAM frame (RFC 9000 §19.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StreamFrame {
    /// Id of the stream.
    pub(super) id: u64,
    /// Offset of the data in its stream.
    pub(super) offset: u64,
    /// Length of the data in bytes.
    pub(super) bytes: u64,
}

/// Calls `found` for every STREAM frame. Returns `false` if a frame has an unknown type, so that
/// the frames behind it were not read.
pub(super) fn for_each_stream_frame(payload: &[u8], mut found: impl FnMut(StreamFrame)) -> bool {
    let mut rest = Reader(payload);
    while !rest.0.is_empty() {
        match next(&mut rest) {
            Some(Some(frame)) => found(frame),
            Some(None) => {}
            None => return false,
        }
    }
    true
}

/// Reads a frame; `None` if its type is unknown or its end is missing.
fn next(rest: &mut Reader<'_>) -> Option<Option<StreamFrame>> {
    let kind = rest.number()?;
    match kind {
        // PADDING, PING, HANDSHAKE_DONE, IMMEDIATE_ACK
        0x00 | 0x01 | 0x1e | 0x1f => {}
        0x02 | 0x03 => skip_ack(rest, kind == 0x03)?,
        // RESET_STREAM
        0x04 => rest.numbers(3)?,
        // STOP_SENDING, MAX_STREAM_DATA, STREAM_DATA_BLOCKED
        0x05 | 0x11 | 0x15 => rest.numbers(2)?,
        // CRYPTO
        0x06 => {
            rest.number()?;
            rest.block()?;
        }
        // NEW_TOKEN, DATAGRAM with a length
        0x07 | 0x31 => rest.block()?,
        0x08..=0x0f => return stream(rest, kind).map(Some),
        // MAX_DATA, MAX_STREAMS, DATA_BLOCKED, STREAMS_BLOCKED, RETIRE_CONNECTION_ID
        0x10 | 0x12..=0x14 | 0x16 | 0x17 | 0x19 => rest.numbers(1)?,
        // NEW_CONNECTION_ID, its reset token being 16 bytes
        0x18 => {
            rest.numbers(2)?;
            let bytes = rest.take(1)?[0];
            rest.take(usize::from(bytes) + 16)?;
        }
        // PATH_CHALLENGE, PATH_RESPONSE
        0x1a | 0x1b => {
            rest.take(8)?;
        }
        // CONNECTION_CLOSE, the transport's and the application's
        0x1c | 0x1d => {
            rest.numbers(if kind == 0x1c { 2 } else { 1 })?;
            rest.block()?;
        }
        // DATAGRAM up to the end
        0x30 => rest.0 = &[],
        // ACK_FREQUENCY
        0xaf => rest.numbers(4)?,
        _ => return None,
    }
    Some(None)
}

fn stream(rest: &mut Reader<'_>, kind: u64) -> Option<StreamFrame> {
    let id = rest.number()?;
    let offset = if kind & 0x04 != 0 { rest.number()? } else { 0 };
    let bytes = if kind & 0x02 != 0 {
        rest.number()?
    } else {
        rest.0.len() as u64
    };
    rest.take(usize::try_from(bytes).ok()?)?;
    Some(StreamFrame { id, offset, bytes })
}

/// Skips an ACK frame: largest, delay, count, first range, then gap and length of each range; ECN
/// counts if `marked`.
fn skip_ack(rest: &mut Reader<'_>, marked: bool) -> Option<()> {
    rest.numbers(2)?;
    let ranges = rest.number()?;
    rest.number()?;
    for _ in 0..ranges {
        rest.numbers(2)?;
    }
    if marked {
        rest.numbers(3)?;
    }
    Some(())
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(taken)
    }

    /// Reads an integer of variable length (RFC 9000 §16).
    fn number(&mut self) -> Option<u64> {
        let first = *self.0.first()?;
        let bytes = self.take(1 << (first >> 6))?;
        let first = u64::from(first & 0x3f);
        Some(
            bytes[1..]
                .iter()
                .fold(first, |value, byte| (value << 8) | u64::from(*byte)),
        )
    }

    fn numbers(&mut self, count: usize) -> Option<()> {
        for _ in 0..count {
            self.number()?;
        }
        Some(())
    }

    /// Skips bytes that follow their length.
    fn block(&mut self) -> Option<()> {
        let bytes = self.number()?;
        self.take(usize::try_from(bytes).ok()?)?;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found(payload: &[u8]) -> (bool, Vec<(u64, u64, u64)>) {
        let mut frames = Vec::new();
        let known = for_each_stream_frame(payload, |frame| {
            frames.push((frame.id, frame.offset, frame.bytes));
        });
        (known, frames)
    }

    #[test]
    fn stream_frames_are_found_behind_others() {
        let payload = [
            0x1e, 0x01, // HANDSHAKE_DONE, PING
            0x02, 0x40, 0x64, 0x05, 0x01, 0x02, 0x01, 0x03, // ACK with a second range
            0x10, 0x80, 0x01, 0x00, 0x00, // MAX_DATA
            0x0e, 0x02, 0x41, 0x00, 0x03, 9, 9, 9, // STREAM 2 at 256, 3 bytes
            0x04, 0x06, 0x00, 0x07, // RESET_STREAM
            0x08, 0x06, 9, 9, // STREAM 6 up to the end
        ];
        assert_eq!(found(&payload), (true, vec![(2, 256, 3), (6, 0, 2)]));
    }

    #[test]
    fn an_unknown_frame_is_told() {
        assert_eq!(
            found(&[0x0a, 0x02, 0x01, 9, 0x40, 0x3e]),
            (false, vec![(2, 0, 1)])
        );
        assert_eq!(found(&[0x0a, 0x02, 0x05, 9]), (false, vec![]));
    }

    proptest! {
        #[test]
        fn anything_is_read_to_its_end(payload in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut bytes = 0;
            for_each_stream_frame(&payload, |frame| bytes += frame.bytes);
            prop_assert!(bytes <= payload.len() as u64);
        }
    }
}
