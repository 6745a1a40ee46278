use std::fmt;

use glassline_media::Codec;

/// The lack of a source that sends no frame to begin with. Its text follows a clause that says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lack {
    /// No frame of the video came whole.
    #[default]
    Frames,
    /// No frame is a keyframe.
    Keyframes(Codec),
    /// Keyframes come, but no parameter sets.
    Sets(Codec),
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Frames => f.write_str(": no frame came whole"),
            Self::Keyframes(Codec::H264 | Codec::H265) => {
                f.write_str(": its frames are no IDR pictures, and have no recovery points")
            }
            Self::Keyframes(_) => f.write_str(": its frames need earlier ones"),
            Self::Sets(codec) => {
                let sets = match codec {
                    Codec::H265 => "VPS, SPS and PPS",
                    _ => "SPS and PPS",
                };
                write!(
                    f,
                    ": keyframes come, but {sets} neither with them nor in the description"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_told_what_it_lacks() {
        for (lack, words) in [
            (Lack::Frames, "no frame came whole"),
            (Lack::Keyframes(Codec::H264), "no IDR pictures"),
            (Lack::Keyframes(Codec::Vp8), "need earlier ones"),
            (Lack::Sets(Codec::H264), "but SPS and PPS neither"),
            (Lack::Sets(Codec::H265), "but VPS, SPS and PPS neither"),
        ] {
            let text = lack.to_string();
            assert!(text.starts_with(": ") && text.contains(words), "{text}");
        }
    }
}
