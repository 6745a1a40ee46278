//! What comes through a pipe: any bytes, in any pieces, either fail with a reason or
//! become frames: of y4m whole planes, of H.264 and H.265 units that begin with a
//! keyframe, of containers and audio frames in order, the same ones whatever the pieces.

use std::io::{self, Read};
use std::path::Path;

use glassline_demux::live::{self, Splitter, Unit};
use glassline_demux::y4m::{self, Parser};
use glassline_demux::{Frame, PipeDemuxer};

pub(crate) fn run(input: &[u8]) {
    // The first byte says how large the pieces are.
    let Some((&step, bytes)) = input.split_first() else {
        return;
    };
    let step = usize::from(step).max(1);
    let whole = units(bytes, bytes.len().max(1));
    let pieces = units(bytes, step);
    assert_eq!(whole, pieces);
    if let Ok(units) = whole {
        assert!(units.first().is_none_or(|unit| unit.keyframe));
        assert!(units.iter().all(|unit| !unit.data.is_empty()));
    }
    assert_eq!(frames(bytes, bytes.len().max(1)), frames(bytes, step));
    assert_eq!(demuxed(bytes, bytes.len().max(1)), demuxed(bytes, step));
}

/// Bytes that arrive in pieces.
struct Pieces {
    bytes: io::Cursor<Vec<u8>>,
    step: usize,
}

impl Read for Pieces {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let room = out.len().min(self.step);
        self.bytes.read(&mut out[..room])
    }
}

/// The frames of a container or of audio, up to the end or the first damage that ends the pipe.
fn demuxed(bytes: &[u8], step: usize) -> Vec<Frame> {
    let pieces = Pieces {
        bytes: io::Cursor::new(bytes.to_vec()),
        step,
    };
    let mut frames = Vec::new();
    if let Ok(mut demuxer) = PipeDemuxer::open(Path::new("pipe"), Box::new(pieces), None) {
        let mut latest = vec![i64::MIN; demuxer.tracks().len()];
        while let Ok(Some(frame)) = demuxer.next_frame() {
            let decode = frame.decode_time.nanos();
            assert!(decode >= latest[frame.track.get()]);
            latest[frame.track.get()] = decode;
            frames.push(frame);
        }
    }
    frames
}

fn units(bytes: &[u8], step: usize) -> Result<Vec<Unit>, live::Error> {
    let mut splitter = Splitter::new();
    for piece in bytes.chunks(step) {
        splitter.push(piece)?;
    }
    splitter.finish()?;
    Ok(std::iter::from_fn(|| splitter.next_unit()).collect())
}

/// How many, or why none.
fn frames(bytes: &[u8], step: usize) -> Result<usize, y4m::Error> {
    let mut parser = Parser::new();
    let mut count = 0;
    for mut piece in bytes.chunks(step) {
        while !piece.is_empty() {
            let taken = parser.push(piece)?;
            assert!(taken > 0);
            piece = &piece[taken..];
            if let Some(frame) = parser.frame() {
                let header = parser.header().expect("frames come behind it");
                let rows = header.height as usize;
                assert_eq!(frame.y.len(), rows * frame.stride);
                assert_eq!(frame.u.len(), rows / 2 * frame.chroma_stride);
                assert_eq!(frame.u.len(), frame.v.len());
                count += 1;
            }
        }
    }
    Ok(count)
}
