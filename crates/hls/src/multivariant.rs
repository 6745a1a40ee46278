//! The Multivariant Playlist of a stream: its layers as variants, its audio as renditions.

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};

use crate::playlist::{SegmentRate, VERSION};

/// A stream with its Media Playlists.
///
/// ```text
/// video, each layer ─┐
///                    ├► one variant for each layer and each codec of audio
/// audio, each codec ─┘   (audio alone is a variant by itself)
/// ```
#[derive(Clone, Debug, Default)]
pub struct MultivariantPlaylist {
    /// Encodings of the video; players begin with the first.
    pub video: Vec<Variant>,
    /// Encodings of the audio, the one to begin with first. Each is a group by itself, since a group has
    /// one codec only.
    pub audio: Vec<AudioRendition>,
}

/// An encoding of a stream's video.
#[derive(Clone, Debug)]
pub struct Variant {
    /// URI of the Media Playlist, relative to the Multivariant Playlist.
    pub uri: String,
    /// Codec as RFC 6381 writes it.
    pub codec: String,
    /// Bitrates of the segments.
    pub rate: SegmentRate,
    /// Width and height in pixels, if known.
    pub size: Option<(u32, u32)>,
    /// Frames a second, if known.
    pub frame_rate: Option<f64>,
}

/// An encoding of a stream's audio.
#[derive(Clone, Debug)]
pub struct AudioRendition {
    /// URI of the Media Playlist, relative to the Multivariant Playlist.
    pub uri: String,
    /// Name of the group, without quotes.
    pub group: String,
    /// Name for people, without quotes.
    pub name: String,
    /// Codec as RFC 6381 writes it.
    pub codec: String,
    /// Bitrates of the segments.
    pub rate: SegmentRate,
    /// Number of channels.
    pub channels: u8,
}

impl MultivariantPlaylist {
    /// Returns the text of the playlist.
    pub fn text(&self) -> String {
        let mut text = String::with_capacity(1024);
        // Writing to a string cannot fail.
        let _ = self.write(&mut text);
        text
    }

    fn write(&self, text: &mut String) -> fmt::Result {
        writeln!(text, "#EXTM3U\n#EXT-X-VERSION:{VERSION}")?;
        if self.video.is_empty() {
            return self.audio.iter().try_for_each(|it| it.write_alone(text));
        }
        self.audio.iter().try_for_each(|it| it.write_media(text))?;
        for variant in &self.video {
            if self.audio.is_empty() {
                variant.write(text, None)?;
            }
            let audio = self.audio.iter();
            audio.map(Some).try_for_each(|it| variant.write(text, it))?;
        }
        Ok(())
    }
}

impl Variant {
    fn write(&self, text: &mut String, audio: Option<&AudioRendition>) -> fmt::Result {
        let rate = audio.map_or(self.rate, |it| self.rate.with(it.rate));
        rate.write(text)?;
        let codecs: BTreeSet<&str> = [self.codec.as_str()]
            .into_iter()
            .chain(audio.map(|it| it.codec.as_str()))
            .collect();
        let codecs: Vec<&str> = codecs.into_iter().collect();
        write!(text, ",CODECS=\"{}\"", codecs.join(","))?;
        if let Some((width, height)) = self.size {
            write!(text, ",RESOLUTION={width}x{height}")?;
        }
        if let Some(frame_rate) = self.frame_rate {
            write!(text, ",FRAME-RATE={frame_rate:.3}")?;
        }
        if let Some(audio) = audio {
            write!(text, ",AUDIO=\"{}\"", audio.group)?;
        }
        writeln!(text, "\n{}", self.uri)
    }
}

impl AudioRendition {
    fn write_media(&self, text: &mut String) -> fmt::Result {
        let Self {
            uri,
            group,
            name,
            channels,
            ..
        } = self;
        writeln!(
            text,
            "#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"{group}\",NAME=\"{name}\",DEFAULT=YES,\
             AUTOSELECT=YES,CHANNELS=\"{channels}\",URI=\"{uri}\""
        )
    }

    /// Writes the rendition as a variant without video.
    fn write_alone(&self, text: &mut String) -> fmt::Result {
        self.rate.write(text)?;
        writeln!(text, ",CODECS=\"{}\"\n{}", self.codec, self.uri)
    }
}

impl SegmentRate {
    /// Returns the rates of both together.
    const fn with(self, other: Self) -> Self {
        Self {
            peak: self.peak + other.peak,
            average: self.average + other.average,
        }
    }

    /// Writes the beginning of a variant.
    fn write(self, text: &mut String) -> fmt::Result {
        // A rate of 0 stands for a stream that players cannot choose.
        let Self { peak, average } = self;
        let (peak, average) = (peak.max(1), average.max(1));
        write!(
            text,
            "#EXT-X-STREAM-INF:BANDWIDTH={peak},AVERAGE-BANDWIDTH={average}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(peak: u64) -> SegmentRate {
        SegmentRate {
            peak,
            average: peak / 2,
        }
    }

    fn video(uri: &str, peak: u64) -> Variant {
        Variant {
            uri: uri.to_owned(),
            codec: "avc1.64001f".to_owned(),
            rate: rate(peak),
            size: Some((1280, 720)),
            frame_rate: Some(30.0),
        }
    }

    fn audio(codec: &str, group: &str) -> AudioRendition {
        AudioRendition {
            uri: format!("{group}.m3u8"),
            group: group.to_owned(),
            name: "Audio".to_owned(),
            codec: codec.to_owned(),
            rate: rate(100),
            channels: 2,
        }
    }

    #[test]
    fn each_layer_is_a_variant_with_each_codec_of_audio() {
        let playlist = MultivariantPlaylist {
            video: vec![video("a.m3u8", 2000), video("b.m3u8", 500)],
            audio: vec![audio("opus", "opus"), audio("mp4a.40.2", "aac")],
        };
        let expected = "\
#EXTM3U
#EXT-X-VERSION:9
#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"opus\",NAME=\"Audio\",DEFAULT=YES,AUTOSELECT=YES,CHANNELS=\"2\",URI=\"opus.m3u8\"
#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"aac\",NAME=\"Audio\",DEFAULT=YES,AUTOSELECT=YES,CHANNELS=\"2\",URI=\"aac.m3u8\"
#EXT-X-STREAM-INF:BANDWIDTH=2100,AVERAGE-BANDWIDTH=1050,CODECS=\"avc1.64001f,opus\",RESOLUTION=1280x720,FRAME-RATE=30.000,AUDIO=\"opus\"
a.m3u8
#EXT-X-STREAM-INF:BANDWIDTH=2100,AVERAGE-BANDWIDTH=1050,CODECS=\"avc1.64001f,mp4a.40.2\",RESOLUTION=1280x720,FRAME-RATE=30.000,AUDIO=\"aac\"
a.m3u8
#EXT-X-STREAM-INF:BANDWIDTH=600,AVERAGE-BANDWIDTH=300,CODECS=\"avc1.64001f,opus\",RESOLUTION=1280x720,FRAME-RATE=30.000,AUDIO=\"opus\"
b.m3u8
#EXT-X-STREAM-INF:BANDWIDTH=600,AVERAGE-BANDWIDTH=300,CODECS=\"avc1.64001f,mp4a.40.2\",RESOLUTION=1280x720,FRAME-RATE=30.000,AUDIO=\"aac\"
b.m3u8
";
        assert_eq!(playlist.text(), expected);
    }

    #[test]
    fn video_or_audio_alone_is_a_variant_without_a_group() {
        let silent = MultivariantPlaylist {
            video: vec![video("a.m3u8", 2000)],
            ..MultivariantPlaylist::default()
        };
        assert!(!silent.text().contains("AUDIO"), "{}", silent.text());
        let radio = MultivariantPlaylist {
            audio: vec![audio("mp4a.40.2", "aac")],
            ..MultivariantPlaylist::default()
        };
        let expected = "\
#EXTM3U
#EXT-X-VERSION:9
#EXT-X-STREAM-INF:BANDWIDTH=100,AVERAGE-BANDWIDTH=50,CODECS=\"mp4a.40.2\"
aac.m3u8
";
        assert_eq!(radio.text(), expected);
    }
}
