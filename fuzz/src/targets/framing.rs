//! Frames of a TCP connection: however a connection cuts its bytes, the same datagrams come out, and
//! a frame that is too long ends them at the same place.

use glassline_webrtc::framing::{FRAME_BYTES_MAX, FrameReader};

/// The first byte is the number of cuts; each of the next is the length of a piece.
pub(crate) fn run(input: &[u8]) {
    let Some((&count, rest)) = input.split_first() else {
        return;
    };
    let (cuts, bytes) = rest.split_at(usize::from(count).min(rest.len()));
    let whole = read([bytes]);
    let mut rest = bytes;
    let pieces = cuts.iter().map(|cut| {
        let (piece, behind) = rest.split_at(usize::from(*cut).min(rest.len()));
        rest = behind;
        piece
    });
    let mut pieces: Vec<_> = pieces.collect();
    pieces.push(rest);
    assert_eq!(read(pieces), whole);
    assert!(
        whole
            .0
            .iter()
            .all(|it| (1..=FRAME_BYTES_MAX).contains(&it.len()))
    );
}

/// Returns the datagrams, and whether all bytes could be read.
fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Vec<u8>>, bool) {
    let (mut reader, mut datagrams) = (FrameReader::default(), Vec::new());
    for piece in pieces {
        let mut piece = piece.to_vec();
        if reader
            .read(&mut piece, |datagram| datagrams.push(datagram.to_vec()))
            .is_err()
        {
            return (datagrams, false);
        }
    }
    (datagrams, true)
}
