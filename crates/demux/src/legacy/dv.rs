//! Digital video as on DV tapes: frames of DIF blocks (IEC 61834-2, SMPTE 314M), at 25 Mbit/s.
//! Every frame has the same length and is a keyframe, so no index is needed.

use glassline_media::{Codec, Track, VideoParameters};

use crate::error::{Fault, Reason, WarningReason, Warnings};
use crate::length::Length;
use crate::reader::{Reader, Unit};
use crate::window::{Window, read_unit};
use crate::{Data, FrameRate, parameters};

/// Bytes of a DIF block.
const BLOCK_BYTES: usize = 80;

/// Bytes of a DIF sequence, which has 150 blocks.
const SEQUENCE_BYTES: u64 = 150 * BLOCK_BYTES as u64;

/// Bytes at the start of a frame that describe it: header, subcode and video auxiliary blocks,
/// then the first blocks of audio and video.
const HEAD_BYTES: usize = 8 * BLOCK_BYTES;

/// A reader of the frames of a DV file.
pub(crate) struct Dv {
    data: Box<dyn Data>,
    profile: Profile,
    frames: u64,
    tracks: [Track; 1],
    next: u64,
}

/// Format of the frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Profile {
    /// Whether the video has 625 lines and 50 fields per second, not 525 and 59.94.
    fifty: bool,
    /// Whether the format is that of SMPTE 314M (DVCPRO), not of IEC 61834.
    professional: bool,
}

/// Returns whether `start` begins with the DIF blocks of a frame's first sequence.
pub(crate) fn begins(start: &[u8]) -> bool {
    // Each block has a section type, in the upper three bits of its first byte, and a number
    // within the section (IEC 61834-2 §11.4).
    const BLOCKS: [(usize, u8, u8); 7] = [
        (0, 0, 0),
        (1, 1, 0),
        (2, 1, 1),
        (3, 2, 0),
        (5, 2, 2),
        (6, 3, 0),
        (7, 4, 0),
    ];
    BLOCKS.iter().all(|&(block, kind, number)| {
        let id = start.get(block * BLOCK_BYTES..block * BLOCK_BYTES + 3);
        // The identifier names the first sequence of the first channel, with reserved bits of
        // one.
        id.is_some_and(|id| id[0] >> 5 == kind && id[1] & 0xf7 == 0x07 && id[2] == number)
    })
}

impl Profile {
    /// Parses the profile of a frame that passed [`begins`].
    fn parse(head: &[u8]) -> Result<Self, Reason> {
        let refused = |found| {
            Err(Reason::Refused {
                found,
                instead: "only DV of 25 Mbit/s is; encode it again (ffmpeg: -target ntsc-dv)",
            })
        };
        // The source pack (0x60) in the video auxiliary data states the compression, in the
        // lowest five bits of its fourth byte.
        let source = &head[5 * BLOCK_BYTES + 48..][..5];
        if source[0] == 0x60 {
            match source[3] & 0x1f {
                0x00 => {}
                0x04 => return refused("DV of 50 Mbit/s (DVCPRO50)"),
                0x14 | 0x15 | 0x18 => return refused("DV of 100 Mbit/s (DVCPRO HD)"),
                _ => return refused("DV of an unknown kind"),
            }
        }
        Ok(Self {
            fifty: head[3] & 0x80 != 0,
            professional: head[4] & 0x07 != 0,
        })
    }

    fn frame_bytes(self) -> u64 {
        SEQUENCE_BYTES * if self.fifty { 12 } else { 10 }
    }

    fn rate(self) -> FrameRate {
        let rate = if self.fifty { (25, 1) } else { (30_000, 1001) };
        FrameRate::new(rate.0, rate.1).unwrap_or(FrameRate::DEFAULT)
    }

    /// Returns the name in the list of RFC 6469 §3.1.
    fn encode(self) -> &'static str {
        match (self.professional, self.fifty) {
            (false, false) => "SD-VCR/525-60",
            (false, true) => "SD-VCR/625-50",
            (true, false) => "314M-25/525-60",
            (true, true) => "314M-25/625-50",
        }
    }

    fn track(self) -> Track {
        let video = VideoParameters {
            width: 720,
            height: if self.fifty { 576 } else { 480 },
            ..VideoParameters::default()
        };
        let track = Track::new(Codec::Dv).with_format_parameters(parameters::dv(self.encode()));
        Track { video, ..track }
    }
}

impl Dv {
    /// Opens a file and checks the start of each frame.
    pub(crate) fn open(data: Box<dyn Data>, warnings: &mut Warnings) -> Result<Self, Fault> {
        let mut window = Window::new(data)?;
        let head = window.peek(0, HEAD_BYTES)?;
        if !begins(head) {
            return Err(no_frame(0));
        }
        let profile = Profile::parse(head).map_err(|reason| Fault::at(0, reason))?;
        let (frames, left) = (
            window.file_bytes() / profile.frame_bytes(),
            window.file_bytes() % profile.frame_bytes(),
        );
        if frames == 0 {
            let what = "it ends inside its first frame".into();
            return Err(Fault::at(0, Reason::NothingToPlay(what)));
        }
        let mut data = window.into_data();
        for frame in 1..frames {
            let at = frame * profile.frame_bytes();
            let head = read_unit(&mut data, at, HEAD_BYTES)?;
            if !begins(&head) {
                return Err(no_frame(at));
            }
            let found = Profile::parse(&head).map_err(|reason| Fault::at(at, reason))?;
            if found != profile {
                let (from, to) = (profile.encode().into(), found.encode().into());
                return Err(Fault::at(at, Reason::Changes { from, to }));
            }
        }
        if left > 0 {
            let at = frames * profile.frame_bytes();
            warnings.add(Some(at), WarningReason::TruncatedFrame);
        }
        Ok(Self {
            data,
            profile,
            frames,
            tracks: [profile.track()],
            next: 0,
        })
    }

    fn start_ns(&self, frame: u64) -> i64 {
        self.profile.rate().nanos(frame * 2)
    }

    /// Returns the last frame that begins at `at_ns` or before.
    fn frame_at(&self, at_ns: i64) -> u64 {
        let length_ns = self.start_ns(self.frames).max(1);
        let part = i128::from(at_ns.clamp(0, length_ns)) * i128::from(self.frames);
        let about = u64::try_from(part / i128::from(length_ns)).unwrap_or(0);
        let candidates = about.saturating_sub(1)..=about + 1;
        let early = candidates
            .rev()
            .find(|&frame| self.start_ns(frame) <= at_ns);
        early.unwrap_or(0).min(self.frames)
    }
}

fn no_frame(at: u64) -> Fault {
    let expected = "DV frame";
    Fault::at(
        at,
        Reason::NoFrame {
            expected,
            searched: HEAD_BYTES as u64,
        },
    )
}

impl Reader for Dv {
    fn tracks(&self) -> &[Track] {
        &self.tracks
    }

    fn length(&self) -> Length {
        self.profile.rate().length(self.frames * 2)
    }

    fn frame_rate(&self) -> Option<FrameRate> {
        Some(self.profile.rate())
    }

    fn next_unit(&mut self) -> Result<Option<Unit>, Fault> {
        if self.next >= self.frames {
            return Ok(None);
        }
        let bytes = self.profile.frame_bytes();
        let length = usize::try_from(bytes).unwrap_or(usize::MAX);
        let data = read_unit(&mut self.data, self.next * bytes, length)?;
        let start_ns = self.start_ns(self.next);
        self.next += 1;
        let end_ns = self.start_ns(self.next);
        Ok(Some(Unit::in_turn(start_ns..end_ns, true, data)))
    }

    fn seek(&mut self, to_ns: i64) -> Result<(), Fault> {
        self.next = self.frame_at(to_ns);
        Ok(())
    }

    fn keyframe_at_or_before(&self, at_ns: i64) -> Option<i64> {
        (at_ns >= 0).then(|| self.start_ns(self.frame_at(at_ns).min(self.frames - 1)))
    }

    fn keyframe_after(&self, at_ns: i64) -> Option<i64> {
        let next = if at_ns < 0 {
            0
        } else {
            self.frame_at(at_ns) + 1
        };
        (next < self.frames).then(|| self.start_ns(next))
    }

    fn fork(&self) -> Box<dyn Reader> {
        Box::new(Self {
            data: self.data.fork(),
            profile: self.profile,
            frames: self.frames,
            tracks: self.tracks.clone(),
            next: 0,
        })
    }
}
