//! Framing of datagrams on a TCP connection: a length of two bytes, then the datagram (RFC 4571 §2).

/// Bytes of a length in front of a datagram.
pub const PREFIX_BYTES: usize = 2;

/// Longest datagram that [`FrameReader`] accepts, in bytes: what a peer sends fits into one
/// Ethernet frame on any other path.
pub const FRAME_BYTES_MAX: usize = 1500;

/// Returns the bytes that go in front of a datagram of `len` bytes; `None` if no length field has
/// room for the number.
pub fn prefix(len: usize) -> Option<[u8; PREFIX_BYTES]> {
    u16::try_from(len).ok().map(u16::to_be_bytes)
}

/// A peer announced a frame that is longer than [`FRAME_BYTES_MAX`].
///
/// The bytes behind it cannot be told from frames, so that the connection is of no more use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a frame of {0} bytes is longer than {FRAME_BYTES_MAX} bytes")]
pub struct FrameTooLong(pub usize);

/// Cuts the bytes of a connection into datagrams.
///
/// It keeps at most one unfinished frame. Whole frames are read where they are.
#[derive(Debug, Default)]
pub struct FrameReader {
    /// The begin of a frame whose end has not arrived, with its length in front.
    partial: Vec<u8>,
}

impl FrameReader {
    /// Takes the next `bytes` of the connection and calls `on_datagram` for each datagram that
    /// they complete, in order. Frames without content are left out.
    ///
    /// # Errors
    /// [`FrameTooLong`]: datagrams in front of that frame were handed out, and nothing more can
    /// be read from the connection.
    pub fn read(
        &mut self,
        mut bytes: &mut [u8],
        mut on_datagram: impl FnMut(&mut [u8]),
    ) -> Result<(), FrameTooLong> {
        while !bytes.is_empty() {
            if self.partial.is_empty()
                && let Some(len) = length(bytes)?
                && bytes.len() >= PREFIX_BYTES + len
            {
                let (frame, rest) = bytes.split_at_mut(PREFIX_BYTES + len);
                if len > 0 {
                    on_datagram(&mut frame[PREFIX_BYTES..]);
                }
                bytes = rest;
                continue;
            }
            // Until the length is known, no more than its bytes are taken.
            let wanted = match length(&self.partial)? {
                Some(len) => PREFIX_BYTES + len,
                None => PREFIX_BYTES,
            };
            let missing = (wanted - self.partial.len()).min(bytes.len());
            let (taken, rest) = bytes.split_at_mut(missing);
            self.partial.extend_from_slice(taken);
            bytes = rest;
            if let Some(len) = length(&self.partial)?
                && self.partial.len() == PREFIX_BYTES + len
            {
                if len > 0 {
                    on_datagram(&mut self.partial[PREFIX_BYTES..]);
                }
                self.partial.clear();
            }
        }
        Ok(())
    }
}

/// Returns the length of the datagram that `bytes` begin with; `None` if they do not hold it yet.
fn length(bytes: &[u8]) -> Result<Option<usize>, FrameTooLong> {
    let Some((prefix, _)) = bytes.split_first_chunk::<PREFIX_BYTES>() else {
        return Ok(None);
    };
    let len = usize::from(u16::from_be_bytes(*prefix));
    if len > FRAME_BYTES_MAX {
        return Err(FrameTooLong(len));
    }
    Ok(Some(len))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(reader: &mut FrameReader, bytes: &[u8]) -> Result<Vec<Vec<u8>>, FrameTooLong> {
        let mut datagrams = Vec::new();
        let mut bytes = bytes.to_vec();
        reader.read(&mut bytes, |datagram| datagrams.push(datagram.to_vec()))?;
        Ok(datagrams)
    }

    fn frame(datagram: &[u8]) -> Vec<u8> {
        let prefix = prefix(datagram.len()).expect("a short datagram");
        [&prefix[..], datagram].concat()
    }

    #[test]
    fn a_length_is_two_bytes_in_network_order() {
        assert_eq!(prefix(0x0102), Some([1, 2]));
        assert_eq!(prefix(65_535), Some([255, 255]));
        assert_eq!(prefix(65_536), None);
    }

    #[test]
    fn a_frame_that_is_too_long_is_refused_as_soon_as_its_length_is_known() {
        let mut reader = FrameReader::default();
        assert_eq!(read(&mut reader, &[0x05]), Ok(vec![]));
        assert_eq!(read(&mut reader, &[0xdd]), Err(FrameTooLong(1501)));
        let longest = frame(&[7; FRAME_BYTES_MAX]);
        let mut reader = FrameReader::default();
        assert_eq!(
            read(&mut reader, &longest),
            Ok(vec![vec![7; FRAME_BYTES_MAX]])
        );
        let mut after = frame(&[1]);
        after.extend([0x05, 0xdd, 0]);
        let mut seen = Vec::new();
        let refused = reader.read(&mut after, |it| seen.push(it.to_vec()));
        assert_eq!(refused, Err(FrameTooLong(1501)));
        assert_eq!(seen, [[1]], "what came before is handed out");
    }

    proptest! {
        #[test]
        fn datagrams_arrive_whole_however_the_connection_cuts_them(
            datagrams in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..20),
            cuts in prop::collection::vec(1_usize..30, 1..20),
        ) {
            let bytes: Vec<u8> = datagrams.iter().flat_map(|it| frame(it)).collect();
            let mut reader = FrameReader::default();
            let (mut arrived, mut rest, mut turn) = (Vec::new(), &bytes[..], 0);
            while !rest.is_empty() {
                let (piece, behind) = rest.split_at(cuts[turn % cuts.len()].min(rest.len()));
                arrived.extend(read(&mut reader, piece)?);
                (rest, turn) = (behind, turn + 1);
            }
            let sent: Vec<_> = datagrams.into_iter().filter(|it| !it.is_empty()).collect();
            prop_assert_eq!(arrived, sent);
        }

        #[test]
        fn no_more_than_one_frame_is_kept(pieces in prop::collection::vec(
            prop::collection::vec(any::<u8>(), 1..4_000), 1..8,
        )) {
            let mut reader = FrameReader::default();
            for piece in pieces {
                let is_readable = read(&mut reader, &piece).is_ok();
                prop_assert!(reader.partial.len() <= PREFIX_BYTES + FRAME_BYTES_MAX);
                if !is_readable {
                    break;
                }
            }
        }
    }
}
