//! Leaves out the tracks of files that no viewer can be sent.

use glassline_demux::{self as demux, Demuxer};
use glassline_media::{Codec, Track, UnitBuilder};
use glassline_rtp::payload::{PacketizeError, Packetizer};

/// Leaves out the tracks of `source` whose first frame has a form that RTP cannot carry: all
/// frames of a file share it.
///
/// # Errors
/// No track is left, or the file cannot be read.
pub(super) fn leave_out_unsendable(source: &mut Demuxer) -> Result<(), demux::Error> {
    // Other codings are carried in any form.
    let may_fail = |track: &Track| track.codec == Codec::Jpeg;
    if source.tracks().iter().any(may_fail) {
        source.leave_out(|track, frame| {
            let why = refusal(track, &frame.data)?;
            Some(format!(
                "{why}; encode it again (ffmpeg: -c:v libx264 -bf 0 -pix_fmt yuv420p)"
            ))
        })?;
    }
    Ok(())
}

/// Returns why RTP cannot carry a frame of `track` that has this form; `None` if it can.
pub(super) fn refusal(track: &Track, frame: &[u8]) -> Option<String> {
    let packetized = Packetizer::new(track).packetize(frame, &mut UnitBuilder::default());
    match packetized {
        Err(why @ PacketizeError::UnsupportedFeature { .. }) => Some(why.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_demux::{Format, Input, Options};
    use std::io::Cursor;

    /// A file of Motion JPEG and PCM, whose frames say that their sampling is this: 0x22 is 4:2:0.
    fn opened(sampling: u8) -> Demuxer {
        let mut bytes = include_bytes!("../../demux/samples/jpeg-pcm.mov").to_vec();
        let frame_header = [0xff, 0xc0, 0, 17, 8];
        let places: Vec<usize> = bytes
            .windows(frame_header.len())
            .enumerate()
            .filter_map(|(at, window)| (window == frame_header).then_some(at))
            .collect();
        assert!(!places.is_empty());
        for at in places {
            bytes[at + 11] = sampling;
        }
        let input = Input {
            name: "clip.mov".into(),
            format: Format::Mp4,
            data: Box::new(Cursor::new(bytes)),
        };
        Demuxer::new(vec![input], &Options::default()).expect("a good file")
    }

    fn codecs(source: &Demuxer) -> Vec<Codec> {
        source.tracks().iter().map(|track| track.codec).collect()
    }

    #[test]
    fn jpeg_that_rtp_cannot_carry_is_left_out_with_a_reason() {
        let mut source = opened(0x11);
        leave_out_unsendable(&mut source).expect("the audio is left");
        assert_eq!(codecs(&source), [Codec::L16]);
        let warning = source.warnings().last().expect("a reason").to_string();
        assert!(warning.contains("RTP cannot carry JPEG"), "{warning}");
        assert!(warning.contains("ffmpeg"), "{warning}");
        let mut fork = source.fork(true);
        for _ in 0..20 {
            let frame = fork.next_frame().expect("readable").expect("audio");
            assert_eq!(frame.track.get(), 0);
            assert_eq!(frame.data.len() % 2, 0);
        }
    }

    #[test]
    fn jpeg_that_rtp_can_carry_stays() {
        let mut source = opened(0x22);
        leave_out_unsendable(&mut source).expect("all is left");
        assert_eq!(codecs(&source), [Codec::Jpeg, Codec::L16]);
    }
}
