//! The `RTP-Info` header: where each track's packets begin (RFC 2326 §12.33).

use std::fmt;

/// One track of a PLAY response's `RTP-Info`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RtpInfo {
    /// The track's control URL, as the server writes it; may be relative.
    pub url: String,
    /// RTP sequence number of the track's first packet.
    pub sequence: Option<u16>,
    /// RTP timestamp that corresponds to the start of the played range.
    pub timestamp: Option<u32>,
}

/// Most tracks that are read; further ones are ignored.
const TRACKS_MAX: usize = 64;

/// Parses a header's value. An entry begins at `url=`, since a URL may contain commas itself.
/// Unreadable values of an entry are absent.
pub fn parse(text: &str) -> Vec<RtpInfo> {
    let mut starts = Vec::new();
    let mut at = 0;
    for part in text.split(',') {
        if part.trim_start().get(..4).is_some_and(is_url_key) {
            starts.push(at);
        }
        at += part.len() + 1;
    }
    let ends = starts.iter().skip(1).map(|&next| next - 1);
    let spans = starts.iter().zip(ends.chain([text.len()]));
    let entries = spans.map(|(&start, end)| RtpInfo::parse(&text[start..end]));
    entries.take(TRACKS_MAX).collect()
}

fn is_url_key(text: &str) -> bool {
    text.eq_ignore_ascii_case("url=")
}

impl RtpInfo {
    fn parse(text: &str) -> Self {
        let mut info = Self::default();
        // The numbers follow the URL, which may contain semicolons.
        let mut rest = text.trim();
        while let Some((before, last)) = rest.rsplit_once(';') {
            let Some((key, value)) = last.split_once('=') else {
                if last.trim().is_empty() {
                    rest = before;
                    continue;
                }
                break;
            };
            let value = value.trim();
            match key.trim().to_ascii_lowercase().as_str() {
                "seq" => info.sequence = value.parse().ok(),
                "rtptime" => info.timestamp = value.parse().ok(),
                "ssrc" => {}
                _ => break,
            }
            rest = before;
        }
        let url = rest.split_once('=').map_or("", |(_, url)| url);
        info.url = url.trim().trim_matches('"').to_owned();
        info
    }
}

impl fmt::Display for RtpInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "url={}", self.url)?;
        if let Some(sequence) = self.sequence {
            write!(f, ";seq={sequence}")?;
        }
        if let Some(timestamp) = self.timestamp {
            write!(f, ";rtptime={timestamp}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn info(url: &str, sequence: Option<u16>, timestamp: Option<u32>) -> RtpInfo {
        RtpInfo {
            url: url.to_owned(),
            sequence,
            timestamp,
        }
    }

    #[test]
    fn headers_of_real_servers_are_read() {
        let live555 = "url=rtsp://10.0.0.1:8554/a.mkv/track1;seq=34171;rtptime=990101283,\
                       url=rtsp://10.0.0.1:8554/a.mkv/track2;seq=1;rtptime=2";
        assert_eq!(
            parse(live555),
            [
                info(
                    "rtsp://10.0.0.1:8554/a.mkv/track1",
                    Some(34171),
                    Some(990_101_283)
                ),
                info("rtsp://10.0.0.1:8554/a.mkv/track2", Some(1), Some(2)),
            ]
        );
        let gst = "url=rtsp://127.0.0.1:8554/cam/stream=0;seq=12;rtptime=7, url=stream=1;seq=x";
        assert_eq!(
            parse(gst),
            [
                info("rtsp://127.0.0.1:8554/cam/stream=0", Some(12), Some(7)),
                info("stream=1", None, None),
            ]
        );
        let odd = "url=rtsp://h/a,b;c=d/track1;rtptime=5;seq=6;ssrc=12ab;";
        assert_eq!(
            parse(odd),
            [info("rtsp://h/a,b;c=d/track1", Some(6), Some(5))]
        );
        assert!(parse("").is_empty() && parse("seq=1").is_empty());
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            tracks in prop::collection::vec(
                ("rtsp://[a-z]{1,9}/[a-z,=?&]{0,9}", any::<Option<u16>>(), any::<Option<u32>>()), 0..5),
        ) {
            let tracks: Vec<_> = tracks.iter().map(|(url, seq, time)| info(url, *seq, *time)).collect();
            let text: Vec<_> = tracks.iter().map(RtpInfo::to_string).collect();
            prop_assume!(!text.iter().any(|text| text.contains(",url=")));
            prop_assert_eq!(parse(&text.join(",")), tracks);
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,80}", keys in "(url=|,|;|seq=|é){0,20}") {
            parse(&text);
            parse(&keys);
        }
    }
}
