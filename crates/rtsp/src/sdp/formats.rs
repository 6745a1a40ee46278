/// One encoding that a track may have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Format {
    /// RTP payload type, 0–127.
    pub payload_type: u8,
    /// Encoding name from `a=rtpmap:`, or of the static type (RFC 3551 §6); empty if unknown.
    pub encoding_name: String,
    /// RTP clock rate in Hz; 0 if unknown.
    pub clock_rate: u32,
    /// Audio channels; 1 where the description does not say.
    pub channels: u8,
    /// Format parameters from `a=fmtp:`, without the payload type.
    pub parameters: String,
}

/// Static payload types (RFC 3551 §6) that servers use without `rtpmap`: type, name, clock
/// rate, channels.
const STATIC: [(u8, &str, u32, u8); 15] = [
    (0, "PCMU", 8000, 1),
    (3, "GSM", 8000, 1),
    (4, "G723", 8000, 1),
    (5, "DVI4", 8000, 1),
    (8, "PCMA", 8000, 1),
    (9, "G722", 8000, 1),
    (10, "L16", 44_100, 2),
    (11, "L16", 44_100, 1),
    (14, "MPA", 90_000, 1),
    (18, "G729", 8000, 1),
    (26, "JPEG", 90_000, 1),
    (31, "H261", 90_000, 1),
    (32, "MPV", 90_000, 1),
    (33, "MP2T", 90_000, 1),
    (34, "H263", 90_000, 1),
];

impl Format {
    /// Returns the format that the payload type alone implies.
    pub(super) fn with_payload_type(payload_type: u8) -> Self {
        let known = STATIC.iter().find(|entry| entry.0 == payload_type);
        let (_, name, clock_rate, channels) = known.copied().unwrap_or((0, "", 0, 1));
        Self {
            payload_type,
            encoding_name: name.to_owned(),
            clock_rate,
            channels,
            parameters: String::new(),
        }
    }

    /// Reads `H264/90000` or `opus/48000/2`. Values that are not numbers leave the format's own
    /// in place.
    pub(super) fn set_map(&mut self, text: &str) {
        let mut parts = text.split('/').map(str::trim);
        if let Some(name) = parts.next().filter(|name| !name.is_empty()) {
            name.clone_into(&mut self.encoding_name);
        }
        let rate = parts.next().and_then(|rate| rate.parse().ok());
        self.clock_rate = rate.unwrap_or(self.clock_rate);
        let channels = parts.next().and_then(|channels| channels.parse().ok());
        self.channels = channels.unwrap_or(self.channels);
    }

    /// Returns the value of the format parameter `name`, such as `sprop-parameter-sets`. Names
    /// compare without regard to case.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.split(';').find_map(|part| {
            let (key, value) = part.split_once('=')?;
            let found = key.trim().eq_ignore_ascii_case(name);
            found.then(|| value.trim())
        })
    }
}
