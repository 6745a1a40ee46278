//! What a client of a recording may ask for beyond RFC 2326 (ONVIF Streaming Specification §6).

use std::time::Duration;

use crate::message::{Headers, Request};

/// Feature tag of `Require` that stands for all of it.
pub const FEATURE: &str = "onvif-replay";

/// The wishes of PLAY for a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replay {
    /// Low byte of the request's `CSeq`, by which the client finds the packets that follow the request.
    pub sequence: u8,
    /// Whether frames come at the pace of the recording. Otherwise the client takes them as fast as they come
    /// (`Rate-Control: no`).
    pub is_paced: bool,
    /// The frames to be sent.
    pub frames: Frames,
}

/// The frames that a client wants (`Frames`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Frames {
    /// Every frame of the recording.
    #[default]
    All,
    /// The frames that a decoder can start with alone, this long apart at least.
    Intra(Duration),
}

impl Replay {
    /// Returns whether a request is one for a recording.
    pub fn is_required(request: &Request) -> bool {
        let mut tags = request.headers.get_all("Require");
        tags.any(|list| list.split(',').any(is_feature))
    }

    /// Reads the wishes of a request; `None` if it is not one for a recording.
    ///
    /// `Immediate: yes` needs no answer of its own: what was played before ends at once in any case.
    ///
    /// # Errors
    /// Returns what is wrong with the request.
    pub fn of(request: &Request) -> Result<Option<Self>, &'static str> {
        if !Self::is_required(request) {
            return Ok(None);
        }
        let headers = &request.headers;
        let is_no = |text: &str| text.trim().eq_ignore_ascii_case("no");
        let frames = headers
            .get("Frames")
            .map_or(Some(Frames::All), Frames::parse);
        let frames = frames
            .ok_or("the header Frames is none of all, predicted, intra and intra/MILLISECONDS")?;
        let [.., sequence] = headers.cseq().unwrap_or_default().to_be_bytes();
        Ok(Some(Self {
            sequence,
            is_paced: !headers.get("Rate-Control").is_some_and(is_no),
            frames,
        }))
    }
}

impl Frames {
    /// Parses `all`, `predicted`, `intra` or `intra/MILLISECONDS`. Predicted frames include those that others
    /// refer to; no frame is left out for them, since recordings do not say which these are.
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim().to_ascii_lowercase();
        match text.split_once('/') {
            None if text == "all" || text == "predicted" => Some(Self::All),
            None if text == "intra" => Some(Self::Intra(Duration::ZERO)),
            Some(("intra", interval)) => {
                let interval: u32 = interval.trim().parse().ok()?;
                Some(Self::Intra(Duration::from_millis(interval.into())))
            }
            _ => None,
        }
    }
}

/// Returns the features that a request requires and that there are not, as `Unsupported` names them.
pub(crate) fn unsupported(headers: &Headers) -> Option<String> {
    let required = headers.get_all("Require");
    let required = required.chain(headers.get_all("Proxy-Require"));
    let tags = required.flat_map(|list| list.split(',')).map(str::trim);
    let unknown = tags.filter(|tag| !tag.is_empty() && !is_feature(tag));
    let unknown: Vec<_> = unknown.collect();
    (!unknown.is_empty()).then(|| unknown.join(", "))
}

fn is_feature(tag: &str) -> bool {
    tag.trim().eq_ignore_ascii_case(FEATURE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_of_a_kind_or_none() {
        let cases = [
            ("all", Some(Frames::All)),
            ("predicted", Some(Frames::All)),
            (" Intra", Some(Frames::Intra(Duration::ZERO))),
            ("intra/4000", Some(Frames::Intra(Duration::from_secs(4)))),
            ("intra/", None),
            ("intra/-1", None),
            ("some", None),
        ];
        for (text, expected) in cases {
            assert_eq!(Frames::parse(text), expected, "{text}");
        }
    }
}
