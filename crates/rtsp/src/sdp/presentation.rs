use std::fmt::{self, Write};
use std::net::IpAddr;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use glassline_media::{Bitrate, Codec, Kind, Track, TrackIndex};

use super::TRACKS_MAX;
use crate::range::Range;
use crate::transport::{Group, Profile};

/// A stream as a server describes it (RFC 8866, RFC 2326 appendix C.1): the writing counterpart
/// of [`Description`](super::Description).
///
/// Its `Display` writes the body.
#[derive(Clone, Debug, PartialEq)]
pub struct Presentation {
    /// Session name for people; an empty one is written as `-`.
    pub name: String,
    /// Further information for people; an empty one is left out.
    pub information: String,
    /// Version of the description: whenever the tracks change, so does this number.
    pub version: u64,
    /// Address of the server.
    pub address: IpAddr,
    /// Length of the presentation; `None` for a live stream, which has no end and allows no
    /// seek.
    pub duration: Option<Duration>,
    /// The range of calendar time in which the stream was recorded; `None` if that is not told.
    pub recorded: Option<Range>,
    /// The tracks; at most 32 are written, since there are no more dynamic payload types.
    pub tracks: Vec<Section>,
}

/// One media section of a [`Presentation`].
#[derive(Clone, Debug, PartialEq)]
pub struct Section {
    /// Codec and parameters of the track.
    pub track: Track,
    /// Usual bitrate of the payload, without headers.
    pub bitrate: Option<Bitrate>,
    /// Frame rate of the video, in frames per second.
    pub frame_rate: Option<f64>,
    /// Multicast group that the server sends the track to.
    pub multicast: Option<Group>,
    /// MIKEY message ([`Keys::to_base64`]) with the keys that protect the packets; with it the
    /// section is SRTP.
    ///
    /// [`Keys::to_base64`]: crate::mikey::Keys::to_base64
    pub key_management: Option<String>,
}

impl Section {
    /// Creates a section of `track` alone.
    pub const fn new(track: Track) -> Self {
        Self {
            track,
            bitrate: None,
            frame_rate: None,
            multicast: None,
            key_management: None,
        }
    }
}

/// Returns the payload type of the track at `index`: its static one (RFC 3551 §6), else 96 +
/// `index`.
pub fn payload_type(track: &Track, index: TrackIndex) -> u8 {
    let own = 96 + u8::try_from(index.get().min(TRACKS_MAX - 1)).unwrap_or(0);
    track.static_payload_type().unwrap_or(own)
}

/// Returns the last part of the control URL of the track at `index`.
pub fn control(index: TrackIndex) -> String {
    format!("trackID={index}")
}

impl Presentation {
    /// Returns the body with absolute control URLs, below the stream's URL `base`.
    ///
    /// Players agree about relative controls only where the URL has no query: some append a
    /// control to the query, others replace the last part of the path (RFC 3986 §5.3).
    pub fn at<'a>(&'a self, base: &'a str) -> impl fmt::Display + 'a {
        WithBaseUrl {
            presentation: self,
            base,
        }
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, base: Option<&str>) -> fmt::Result {
        let (family, address) = (family(self.address), self.address);
        let any = match self.address {
            IpAddr::V4(_) => "0.0.0.0",
            IpAddr::V6(_) => "::",
        };
        let version = self.version;
        write!(
            f,
            "v=0\r\no=- {version} {version} IN {family} {address}\r\n"
        )?;
        write!(f, "s={}\r\n", line(&self.name, "-"))?;
        if !self.information.is_empty() {
            write!(f, "i={}\r\n", line(&self.information, "-"))?;
        }
        let whole = base.unwrap_or("*");
        write!(f, "c=IN {family} {any}\r\nt=0 0\r\na=control:{whole}\r\n")?;
        match self.duration {
            Some(duration) => write!(f, "a=range:npt=0-{:.3}\r\n", duration.as_secs_f64())?,
            None => f.write_str("a=range:npt=now-\r\n")?,
        }
        if let Some(recorded) = &self.recorded {
            write!(f, "a=range:{recorded}\r\n")?;
        }
        let tracks = TrackIndex::enumerate(self.tracks.iter().take(TRACKS_MAX));
        for (index, section) in tracks {
            section.write(f, index)?;
            f.write_str("a=control:")?;
            if let Some(base) = base {
                write!(f, "{base}/")?;
            }
            write!(f, "{}\r\n", control(index))?;
        }
        Ok(())
    }
}

/// Writes a presentation with absolute control URLs; see [`Presentation::at`].
struct WithBaseUrl<'a> {
    presentation: &'a Presentation,
    base: &'a str,
}

impl fmt::Display for WithBaseUrl<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.presentation.write(f, Some(self.base))
    }
}

impl fmt::Display for Presentation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, None)
    }
}

impl Section {
    fn write(&self, f: &mut fmt::Formatter<'_>, index: TrackIndex) -> fmt::Result {
        let track = &self.track;
        let number = payload_type(track, index);
        let port = self.multicast.map_or(0, |group| group.ports.0);
        let profile = match self.key_management {
            Some(_) => Profile::Savp,
            None => Profile::Avp,
        };
        write!(f, "m={} {port} {profile} {number}\r\n", track.kind())?;
        if let Some(Group { address, ttl, .. }) = self.multicast {
            write!(f, "c=IN {} {address}", family(address))?;
            // IPv6 has no TTL here (RFC 8866 §5.7).
            if address.is_ipv4() {
                write!(f, "/{ttl}")?;
            }
            f.write_str("\r\n")?;
        }
        if let Some(bitrate) = self.bitrate {
            write!(f, "b=AS:{}\r\n", bitrate.bps().div_ceil(1000))?;
        }
        write!(f, "a=rtpmap:{number} {}\r\n", map(track))?;
        let parameters = parameters(track);
        if !parameters.is_empty() {
            write!(f, "a=fmtp:{number} {}\r\n", line(&parameters, ""))?;
        }
        let (width, height) = (track.video.width, track.video.height);
        if width > 0 && height > 0 {
            write!(f, "a=framesize:{number} {width}-{height}\r\n")?;
        }
        if let Some(rate) = self.frame_rate.filter(|rate| rate.is_finite()) {
            // Whole rates are written without a fraction, others with up to three digits.
            write!(f, "a=framerate:{}\r\n", (rate * 1000.0).round() / 1000.0)?;
        }
        if let Some(keys) = &self.key_management {
            write!(f, "a=key-mgmt:mikey {}\r\n", line(keys, ""))?;
        }
        Ok(())
    }
}

const fn family(address: IpAddr) -> &'static str {
    match address {
        IpAddr::V4(_) => "IP4",
        IpAddr::V6(_) => "IP6",
    }
}

/// Returns `text` on one line, without control characters; `instead` if nothing is left.
fn line(text: &str, instead: &str) -> String {
    let printable = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let printable: String = printable.collect();
    match printable.trim() {
        "" => instead.to_owned(),
        some => some.to_owned(),
    }
}

/// Returns encoding name, clock rate, and channels where the payload format counts them.
fn map(track: &Track) -> String {
    let (name, rate) = (track.codec.encoding_name(), track.clock_rate);
    let channels = match track.codec {
        // Opus always announces two channels (RFC 7587 §7).
        Codec::Opus => 2,
        // Each frame of MPEG audio states its channels (RFC 3551 §4.5.13).
        Codec::MpegAudio => 1,
        _ if track.kind() == Kind::Audio => track.channels,
        _ => 1,
    };
    match channels {
        0 | 1 => format!("{name}/{rate}"),
        _ => format!("{name}/{rate}/{channels}"),
    }
}

/// Returns the format parameters that follow `a=fmtp:PT `.
fn parameters(track: &Track) -> String {
    if track.codec != Codec::H264 {
        return track.format_parameters.clone();
    }
    let mut text = "packetization-mode=1".to_owned();
    let video = &track.video;
    if let Some([profile, flags, level]) = video.profile_level_id() {
        let _ = write!(
            text,
            ";profile-level-id={profile:02x}{flags:02x}{level:02x}"
        );
    }
    if !video.sps.is_empty() && !video.pps.is_empty() {
        let (sps, pps) = (STANDARD.encode(&video.sps), STANDARD.encode(&video.pps));
        let _ = write!(text, ";sprop-parameter-sets={sps},{pps}");
    }
    text
}

#[cfg(test)]
mod tests {
    use glassline_media::VideoParameters;

    use super::*;
    use crate::sdp::Description;

    fn presentation(tracks: Vec<Section>) -> Presentation {
        Presentation {
            name: "cam".to_owned(),
            information: String::new(),
            version: 42,
            address: [192, 0, 2, 1].into(),
            duration: None,
            recorded: None,
            tracks,
        }
    }

    /// The lines of the track at `index` of a presentation.
    fn lines(presentation: &Presentation, index: usize) -> Vec<String> {
        let text = presentation.to_string();
        let section = text.split("m=").nth(index + 1).expect("a section");
        let lines = section.lines().map(str::to_owned).collect::<Vec<_>>();
        assert!(text.ends_with("\r\n"), "{text:?}");
        lines
    }

    fn only(track: Track) -> Vec<String> {
        lines(&presentation(vec![Section::new(track)]), 0)
    }

    #[test]
    fn a_camera_is_described_as_players_want_it() {
        let video = VideoParameters {
            sps: vec![0x67, 0x42, 0xc0, 0x1f, 0xda],
            pps: vec![0x68, 0xce],
            width: 1920,
            height: 1080,
            reordered: false,
        };
        let video = Section {
            bitrate: Some(Bitrate::from_bps(3_000_100)),
            frame_rate: Some(30_000.0 / 1001.0),
            ..Section::new(Track::h264(video))
        };
        let audio = Section::new(Track::new(Codec::Pcmu));
        let text = presentation(vec![video, audio]).to_string();
        let expected = "v=0\r\no=- 42 42 IN IP4 192.0.2.1\r\ns=cam\r\nc=IN IP4 0.0.0.0\r\nt=0 0\r\n\
            a=control:*\r\na=range:npt=now-\r\n\
            m=video 0 RTP/AVP 96\r\nb=AS:3001\r\na=rtpmap:96 H264/90000\r\n\
            a=fmtp:96 packetization-mode=1;profile-level-id=42c01f;sprop-parameter-sets=Z0LAH9o=,aM4=\r\n\
            a=framesize:96 1920-1080\r\na=framerate:29.97\r\na=control:trackID=0\r\n\
            m=audio 0 RTP/AVP 0\r\na=rtpmap:0 PCMU/8000\r\na=control:trackID=1\r\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn what_is_recorded_is_told_beside_the_length() {
        let recorded = Presentation {
            duration: Some(Duration::from_secs(90)),
            recorded: Range::parse("clock=20261130T101500Z-20261130T101630Z"),
            ..presentation(vec![Section::new(Track::new(Codec::Vp8))])
        };
        let text = recorded.to_string();
        let lines = "a=range:npt=0-90.000\r\na=range:clock=20261130T101500Z-20261130T101630Z\r\nm=";
        assert!(text.contains(lines), "{text}");
    }

    #[test]
    fn channels_are_counted_where_the_format_counts_them() {
        let cases = [
            (Track::audio(Codec::Opus, 1), "a=rtpmap:96 opus/48000/2"),
            (
                Track::audio(Codec::Aac, 2).with_clock_rate(44_100),
                "a=rtpmap:96 mpeg4-generic/44100/2",
            ),
            (
                Track::audio(Codec::Aac, 1),
                "a=rtpmap:96 mpeg4-generic/48000",
            ),
            (Track::audio(Codec::L16, 2), "a=rtpmap:10 L16/44100/2"),
            (Track::audio(Codec::MpegAudio, 2), "a=rtpmap:14 MPA/90000"),
            (Track::audio(Codec::Ac3, 6), "a=rtpmap:96 ac3/48000/6"),
            (Track::new(Codec::MpegTs), "a=rtpmap:33 MP2T/90000"),
            (Track::new(Codec::T140), "a=rtpmap:96 t140/1000"),
        ];
        for (track, expected) in cases {
            assert_eq!(only(track)[1], expected);
        }
    }

    #[test]
    fn parameters_are_the_tracks() {
        let aac = Track::new(Codec::Aac).with_format_parameters("config=1190\r\na=evil");
        assert_eq!(only(aac)[2], "a=fmtp:96 config=1190  a=evil");
        assert_eq!(
            only(Track::new(Codec::H264))[2],
            "a=fmtp:96 packetization-mode=1"
        );
        assert_eq!(only(Track::new(Codec::Pcma)).len(), 3);
    }

    #[test]
    fn a_file_has_a_length_and_a_group_an_address() {
        let group = |address: &str| Group {
            address: address.parse().expect("an address"),
            ports: (7000, 7001),
            ttl: 16,
        };
        let mut file = presentation(vec![Section {
            multicast: Some(group("239.1.2.3")),
            ..Section::new(Track::new(Codec::Jpeg))
        }]);
        file.duration = Some(Duration::from_millis(6023));
        file.information = "a\nfile".to_owned();
        let text = file.to_string();
        assert!(text.contains("\r\na=range:npt=0-6.023\r\n"), "{text}");
        assert!(text.contains("\r\ni=a file\r\n"), "{text}");
        assert_eq!(
            lines(&file, 0)[..2],
            ["video 7000 RTP/AVP 26", "c=IN IP4 239.1.2.3/16"]
        );
        file.address = "2001:db8::1".parse().expect("an address");
        file.tracks[0].multicast = Some(group("ff3e::1"));
        let text = file.to_string();
        assert!(text.contains("o=- 42 42 IN IP6 2001:db8::1\r\n"), "{text}");
        assert_eq!(lines(&file, 0)[1], "c=IN IP6 ff3e::1");
    }

    #[test]
    fn absolute_controls_are_below_the_url_they_were_asked_under() {
        let presentation = presentation(vec![Section::new(Track::new(Codec::Pcmu)); 2]);
        let text = presentation.at("rtsp://h/cam?a=b").to_string();
        let controls: Vec<_> = text
            .lines()
            .filter_map(|it| it.strip_prefix("a=control:"))
            .collect();
        let below = |track| format!("rtsp://h/cam?a=b/trackID={track}");
        assert_eq!(controls, ["rtsp://h/cam?a=b", &below(0), &below(1)]);
    }

    #[test]
    fn a_track_with_srtp_states_its_keys() {
        let encrypted = presentation(vec![Section {
            key_management: Some("AQAF".to_owned()),
            ..Section::new(Track::new(Codec::Pcmu))
        }]);
        let lines = lines(&encrypted, 0);
        assert_eq!(lines[0], "audio 0 RTP/SAVP 0");
        assert_eq!(lines[2], "a=key-mgmt:mikey AQAF");
        let text = encrypted.to_string();
        let description = Description::parse(text.as_bytes()).expect("a description");
        let keys = description.tracks[0].key_management.as_deref();
        assert_eq!(keys, Some("AQAF"));
    }

    #[test]
    fn what_is_written_is_read_back() {
        let tracks = Codec::all().map(|codec| Section::new(Track::new(codec)));
        let presentation = presentation(tracks.collect());
        let mut description =
            Description::parse(presentation.to_string().as_bytes()).expect("a description");
        description.resolve("rtsp://h/cam/");
        assert_eq!(description.name, "cam");
        assert_eq!(description.range.as_deref(), Some("npt=now-"));
        assert_eq!(description.tracks.len(), presentation.tracks.len());
        let both = description.tracks.iter().zip(&presentation.tracks);
        for (index, (media, section)) in TrackIndex::enumerate(both) {
            let format = media.format().expect("a format");
            let codec = Codec::from_encoding_name(&format.encoding_name);
            assert_eq!(codec, Some(section.track.codec));
            assert_eq!(format.payload_type, payload_type(&section.track, index));
            assert_eq!(format.clock_rate, section.track.clock_rate);
            let control = format!("rtsp://h/cam/trackID={index}");
            assert_eq!(media.control, Some(control));
        }
        let numbers = description
            .tracks
            .iter()
            .map(|media| media.formats[0].payload_type);
        let mut numbers: Vec<_> = numbers.collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), description.tracks.len(), "each has its own");
    }
}
