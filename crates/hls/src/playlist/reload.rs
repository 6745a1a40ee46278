//! Delivery Directives: what a client wants a playlist to have before it is answered
//! (draft-pantos-hls-rfc8216bis §6.2.5).

use super::MediaPlaylist;

/// The Delivery Directives in the query of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Directives {
    /// Media Sequence Number that the playlist is to have (`_HLS_msn`).
    pub segment: Option<u64>,
    /// Index of the part within that segment (`_HLS_part`).
    pub part: Option<u64>,
    /// Whether a delta update is wanted (`_HLS_skip`).
    pub skip: bool,
}

/// Error for a query whose Delivery Directives are against the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DirectivesError {
    /// A number is none.
    #[error("{key}={value}: the value is a whole number")]
    NoNumber {
        /// The directive of the query.
        key: &'static str,
        /// The text in place of the number.
        value: String,
    },
    /// A part is named without its segment.
    #[error("_HLS_part needs _HLS_msn beside it, the number of the segment that has the part")]
    PartWithoutSegment,
    /// The kind of a delta update is unknown.
    #[error("_HLS_skip={0}: the value is YES or v2")]
    Skip(String),
}

/// Result of [`MediaPlaylist::answer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The playlist has the requested segment or part.
    Now,
    /// The playlist is to have it soon.
    Wait,
    /// No client that read the playlist asks for it: status 400.
    TooFarAhead,
}

impl Directives {
    /// Reads the directives among the decoded `pairs` of a query. Other keys are of other readers.
    ///
    /// # Errors
    /// Returns [`DirectivesError`] with the directive that cannot be followed.
    pub fn of<'a>(
        pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, DirectivesError> {
        let mut read = Self::default();
        for (key, value) in pairs {
            match key {
                "_HLS_msn" => read.segment = Some(number("_HLS_msn", value)?),
                "_HLS_part" => read.part = Some(number("_HLS_part", value)?),
                "_HLS_skip" => match value {
                    "YES" | "v2" => read.skip = true,
                    _ => return Err(DirectivesError::Skip(value.to_owned())),
                },
                _ => {}
            }
        }
        match read {
            Self {
                segment: None,
                part: Some(_),
                ..
            } => Err(DirectivesError::PartWithoutSegment),
            read => Ok(read),
        }
    }
}

fn number(key: &'static str, value: &str) -> Result<u64, DirectivesError> {
    let is_decimal = !value.is_empty() && value.bytes().all(|it| it.is_ascii_digit());
    let number = value.parse().ok().filter(|_| is_decimal);
    number.ok_or_else(|| DirectivesError::NoNumber {
        key,
        value: value.to_owned(),
    })
}

impl MediaPlaylist {
    /// Returns how a request with these directives is answered now. A request without any waits until
    /// there is a complete segment: clients without low latency give up on an empty playlist.
    ///
    /// Without a part, the whole segment must be there (§6.2.5.2): a client that ignores parts would ask
    /// again and again otherwise.
    pub fn answer(&self, directives: &Directives) -> Answer {
        let Some(segment) = directives.segment else {
            return match self.is_ended() || self.is_playable() {
                true => Answer::Now,
                false => Answer::Wait,
            };
        };
        // §6.2.5.2: both directives are ignored in a playlist that has ended.
        if self.is_ended() {
            return Answer::Now;
        }
        let next_complete = match &self.open {
            Some(open) => open.number,
            None => self.next_segment,
        };
        // The last complete segment and two more.
        if segment > next_complete + 1 {
            return Answer::TooFarAhead;
        }
        match directives.part {
            None if segment < next_complete => Answer::Now,
            None => Answer::Wait,
            Some(part) => self.answer_part(segment, part),
        }
    }

    fn answer_part(&self, segment: u64, part: u64) -> Answer {
        let parts_of = |number| {
            let all = self.segments.iter().chain(&self.open);
            let found = all.clone().find(|it| it.number == number);
            found.map(|it| it.listed_parts().len() as u64)
        };
        if segment < self.first_segment() {
            return Answer::Now;
        }
        let is_open = self.open.as_ref().is_some_and(|it| it.number == segment);
        match parts_of(segment) {
            Some(parts) if part < parts => Answer::Now,
            // A part behind the last of a segment is the first of the next one.
            Some(_) if !is_open => match segment + 1 < self.next_segment {
                true => Answer::Now,
                false => Answer::Wait,
            },
            parts => match part < parts.unwrap_or(0) + self.advance_part_limit() {
                true => Answer::Wait,
                false => Answer::TooFarAhead,
            },
        }
    }

    /// Returns the Advance Part Limit of §6.2.5.2.
    fn advance_part_limit(&self) -> u64 {
        let target_ms = self.terms.part_target.as_millis().max(1);
        u64::try_from(3000 / target_ms).map_or(3, |limit| limit.max(3))
    }
}
