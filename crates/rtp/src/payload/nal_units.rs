//! Joins the payloads of H.264 (RFC 6184) and H.265 (RFC 7798) into access units in Annex B form. Both
//! formats have single NAL units, aggregates and fragments; [`Syntax`] has the differences.
//!
//! Cameras put start codes into NAL units: one in front of the unit, or several units of a keyframe as
//! one unit whose type is that of its first. In Annex B form these separate by themselves; only the
//! types are looked for behind them.

use std::fmt;
use std::marker::PhantomData;

use glassline_media::Bits;
use glassline_media::annexb::{self, LONG_START_CODE, START_CODE};

use super::Recovery;
use super::assembly::{DropReason, Entry, FrameFormat};

/// The differences between H.264 and H.265.
pub(crate) trait Syntax: fmt::Debug + Send {
    /// Length of a NAL unit's header in bytes.
    const HEADER_BYTES: usize;
    /// Type of a sequence parameter set.
    const SPS: u8;
    /// Type of supplemental enhancement information in front of a picture.
    const SEI: u8;

    /// Returns the type in the first byte of a NAL unit.
    fn kind(first: u8) -> u8;

    /// Returns whether a NAL unit, and not a payload structure, may have this type.
    fn is_unit(kind: u8) -> bool;

    /// Reads a payload that is a part of a NAL unit, as most are; `None` for any other.
    fn fragment(payload: &[u8]) -> Option<Fragment<'_>>;

    /// Reads the structure of another payload, which is not empty and has no start code in front.
    fn packet(payload: &[u8]) -> Packet<'_>;

    /// Returns the place in an access unit of a NAL unit that begins with `first`. `body`: the first
    /// byte behind its header.
    fn role(first: u8, body: Option<u8>) -> Role;

    /// Reads how many pictures a decoder makes that starts at a recovery point, before they are right.
    /// `payload`: that of the SEI message (H.264 D.2.8, H.265 D.3.8); `None` if it is cut off.
    fn recovery(payload: &mut Bits<'_>) -> Option<u32>;

    /// Returns whether a slice, given from its NAL unit header on, refers to no other picture.
    fn is_intra(slice: &[u8]) -> bool;
}

/// The structure of a payload.
pub(crate) enum Packet<'a> {
    /// The payload is one NAL unit.
    Single,
    /// NAL units, each behind its size of two bytes.
    Aggregate(&'a [u8]),
    /// A type that receivers ignore.
    Reserved,
    /// A type that is specified, but not implemented.
    Unsupported,
    Malformed,
}

/// A part of a NAL unit.
pub(crate) struct Fragment<'a> {
    /// Header of the NAL unit; H.264 uses the first byte only.
    pub(crate) header: [u8; 2],
    pub(crate) begins: bool,
    pub(crate) ends: bool,
    pub(crate) body: &'a [u8],
}

/// The place of a NAL unit in its access unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// A unit that may come first: a delimiter, SEI, the first parameter set.
    Lead,
    /// A parameter set that other sets may precede.
    Set,
    /// A slice: `first` of its picture, or a later one. `keyframe`: the picture is an IDR picture, or
    /// an IRAP picture of H.265.
    Slice { first: bool, keyframe: bool },
    /// A unit that follows a picture.
    Trail,
    /// A unit that tells nothing about the limits of a picture.
    Other,
}

/// Iterates over the NAL units of an aggregate. `None` marks a size that points past the end.
///
/// Cameras pad aggregates: units without a byte are left out, as is a last byte, which is no size.
pub(crate) fn aggregated(mut rest: &[u8]) -> impl Iterator<Item = Option<&[u8]>> {
    std::iter::from_fn(move || {
        loop {
            let (size, behind) = rest.split_first_chunk()?;
            let unit = behind.split_at_checked(usize::from(u16::from_be_bytes(*size)));
            rest = unit.map_or(&[], |(_, rest)| rest);
            match unit {
                Some(([], _)) => {}
                unit => return Some(unit.map(|(unit, _)| unit)),
            }
        }
    })
}

/// Joins payloads into Annex B bytes.
#[derive(Debug)]
pub(crate) struct Assembly<S> {
    /// Where the fragmented NAL unit that has begun and not ended is in the frame.
    open: Option<usize>,
    contents: Contents,
    /// Whether this source sends parameter sets in band, even if only in frames that were lost. Then
    /// every keyframe has them.
    sets_in_band: bool,
    /// Whether this source marks the last fragments of NAL units. Some cameras do not.
    ends_fragments: bool,
    syntax: PhantomData<S>,
}

/// Kinds of NAL units that the access unit has so far.
#[derive(Clone, Copy, Debug, Default)]
struct Contents {
    slices: bool,
    keyframe: bool,
    sets: bool,
    /// Whether a slice refers to other pictures.
    predicted: bool,
    /// Whether a decoder that starts here has right pictures after some frames.
    recovery_point: bool,
}

impl<S> Default for Assembly<S> {
    fn default() -> Self {
        Self {
            open: None,
            contents: Contents::default(),
            sets_in_band: false,
            ends_fragments: false,
            syntax: PhantomData,
        }
    }
}

impl<S: Syntax> Assembly<S> {
    fn push_unit(&mut self, unit: &[u8], frame: &mut Vec<u8>) {
        let role = S::role(unit[0], unit.get(S::HEADER_BYTES).copied());
        // The picture to which such a unit belongs has gone.
        if role == Role::Trail && !self.contents.slices {
            return;
        }
        frame.extend_from_slice(&LONG_START_CODE);
        frame.extend_from_slice(unit);
        self.note(unit);
    }

    fn take_fragment(
        &mut self,
        part: &Fragment<'_>,
        frame: &mut Vec<u8>,
    ) -> Result<(), DropReason> {
        let kind = S::kind(part.header[0]);
        if part.begins {
            self.end_open(frame)?;
        }
        if part.begins == self.open.is_some() || !S::is_unit(kind) {
            return Err(DropReason::Malformed);
        }
        if self.open.is_none() {
            frame.extend_from_slice(&LONG_START_CODE);
            self.open = Some(frame.len());
        }
        if part.begins {
            self.sets_in_band |= kind == S::SPS;
            frame.extend_from_slice(&part.header[..S::HEADER_BYTES]);
        }
        frame.extend_from_slice(part.body);
        if part.ends {
            self.ends_fragments = true;
            self.note_open(frame);
        }
        Ok(())
    }

    /// Ends the fragmented NAL unit under way, if its source does not mark last fragments.
    fn end_open(&mut self, frame: &[u8]) -> Result<(), DropReason> {
        if self.open.is_some() && self.ends_fragments {
            return Err(DropReason::Malformed);
        }
        self.note_open(frame);
        Ok(())
    }

    fn note_open(&mut self, frame: &[u8]) {
        if let Some(at) = self.open.take() {
            self.note(&frame[at..]);
        }
    }

    /// Notes the types of a complete NAL unit, and of those that follow it behind start codes. A slice
    /// ends the search, since only slices follow slices, and most bytes are in them.
    fn note(&mut self, mut unit: &[u8]) {
        while let [first, ..] = unit {
            let contents = &mut self.contents;
            let role = S::role(*first, unit.get(S::HEADER_BYTES).copied());
            if let Role::Slice { keyframe, .. } = role
                && annexb::without_start_code(unit).len() == unit.len()
            {
                contents.slices = true;
                contents.keyframe |= keyframe;
                contents.predicted |= !keyframe && !S::is_intra(unit);
                return;
            }
            let behind = annexb::find_start_code(unit);
            let (whole, rest) = match behind {
                Some(at) => (&unit[..at], &unit[at + START_CODE.len()..]),
                None => (unit, &[][..]),
            };
            match S::kind(*first) {
                kind if kind == S::SPS => {
                    contents.sets = true;
                    self.sets_in_band = true;
                }
                kind if kind == S::SEI => {
                    let messages = whole.get(S::HEADER_BYTES..).unwrap_or_default();
                    contents.recovery_point |= recovery_point::<S>(messages).is_some();
                }
                _ => {}
            }
            unit = rest;
        }
    }

    /// Returns the role of the first NAL unit in a payload; `None` for a continued fragment, and for a
    /// payload without units.
    fn first_role(payload: &[u8]) -> Option<Role> {
        if let Some(part) = S::fragment(payload) {
            return Self::role_of(&part);
        }
        let payload = annexb::without_start_code(payload);
        payload.first()?;
        match S::packet(payload) {
            Packet::Single => Some(S::role(payload[0], payload.get(S::HEADER_BYTES).copied())),
            Packet::Aggregate(units) => {
                let unit = aggregated(units).next().flatten()?;
                Some(S::role(unit[0], unit.get(S::HEADER_BYTES).copied()))
            }
            _ => None,
        }
    }

    fn role_of(part: &Fragment<'_>) -> Option<Role> {
        if !part.begins {
            return None;
        }
        // The header is the beginning of a start code in front of the unit.
        if part.header[..S::HEADER_BYTES].iter().all(|byte| *byte == 0) {
            let one = part.body.iter().position(|byte| *byte != 0)?;
            let unit = &part.body[one + 1..];
            let first = unit.first().filter(|_| part.body[one] == 1)?;
            return Some(S::role(*first, unit.get(S::HEADER_BYTES).copied()));
        }
        Some(S::role(part.header[0], part.body.first().copied()))
    }
}

impl<S: Syntax> FrameFormat for Assembly<S> {
    fn begins(&self, payload: &[u8]) -> bool {
        matches!(
            Self::first_role(payload),
            Some(Role::Lead | Role::Slice { first: true, .. })
        )
    }

    fn continues(&self, payload: &[u8]) -> bool {
        match Self::first_role(payload) {
            Some(role) => matches!(role, Role::Slice { first: false, .. }),
            None => S::fragment(payload).is_some(),
        }
    }

    fn separates(&self, payload: &[u8]) -> bool {
        matches!(Self::first_role(payload), Some(Role::Lead | Role::Set))
    }

    fn is_open(&self) -> bool {
        self.open.is_some()
    }

    fn has_picture(&self, _: &[u8]) -> bool {
        self.contents.slices
    }

    fn reset(&mut self) {
        self.open = None;
        self.contents = Contents::default();
    }

    fn take(&mut self, payload: &[u8], frame: &mut Vec<u8>) -> Result<(), DropReason> {
        if let Some(part) = S::fragment(payload) {
            return self.take_fragment(&part, frame);
        }
        let payload = annexb::without_start_code(payload);
        if payload.is_empty() {
            return Ok(());
        }
        self.end_open(frame)?;
        match S::packet(payload) {
            Packet::Single => self.push_unit(payload, frame),
            Packet::Aggregate(units) => {
                for unit in aggregated(units) {
                    let unit = unit.ok_or(DropReason::Malformed)?;
                    match S::packet(unit) {
                        Packet::Single => self.push_unit(unit, frame),
                        Packet::Reserved => {}
                        _ => return Err(DropReason::Malformed),
                    }
                }
            }
            Packet::Reserved => {}
            Packet::Unsupported => return Err(DropReason::Unsupported),
            Packet::Malformed => return Err(DropReason::Malformed),
        }
        Ok(())
    }

    fn finish(&mut self, frame: &mut Vec<u8>, after_gap: bool) -> Result<Entry, DropReason> {
        self.end_open(frame)?;
        let contents = self.contents;
        if after_gap && contents.keyframe && self.sets_in_band && !contents.sets {
            return Err(DropReason::Loss);
        }
        Ok(match contents {
            Contents { keyframe: true, .. } => Entry::Keyframe,
            Contents {
                predicted: false, ..
            } => Entry::Intra,
            Contents {
                recovery_point: true,
                ..
            } => Entry::Gradual,
            Contents { sets: true, .. } => Entry::Described,
            _ => Entry::None,
        })
    }
}

/// Returns whether the RTP payloads of an access unit contain a sequence parameter set and slices, and
/// none of these of a keyframe.
pub(crate) fn is_without_keyframe<'a, S: Syntax>(payloads: impl Iterator<Item = &'a [u8]>) -> bool {
    let (mut has_sets, mut has_slices) = (false, false);
    let mut note = |first: u8| {
        has_sets |= S::kind(first) == S::SPS;
        let role = S::role(first, None);
        has_slices |= matches!(role, Role::Slice { .. });
        !matches!(role, Role::Slice { keyframe: true, .. })
    };
    for payload in payloads.filter(|payload| !payload.is_empty()) {
        let is_other = match S::fragment(payload) {
            Some(part) => note(part.header[0]),
            None => match S::packet(payload) {
                Packet::Single => note(payload[0]),
                Packet::Aggregate(units) => aggregated(units).flatten().all(|unit| note(unit[0])),
                _ => true,
            },
        };
        if !is_other {
            return false;
        }
    }
    has_sets && has_slices
}

/// Returns how a decoder recovers that starts with `unit`, an access unit in Annex B form.
pub(crate) fn recovery<S: Syntax>(unit: &[u8]) -> Recovery {
    let (mut frames, mut is_predicted) = (None, false);
    for nal in annexb::nals(unit) {
        match S::role(nal[0], None) {
            Role::Slice { keyframe: true, .. } => return Recovery::Keyframe,
            Role::Slice { .. } => is_predicted |= !S::is_intra(nal),
            _ if S::kind(nal[0]) == S::SEI => {
                let messages = nal.get(S::HEADER_BYTES..).unwrap_or_default();
                frames = recovery_point::<S>(messages).or(frames);
            }
            _ => {}
        }
    }
    match frames {
        Some(frames) => Recovery::Frames(frames),
        None if is_predicted => Recovery::Refresh,
        None => Recovery::Frames(0),
    }
}

/// Returns how many pictures the first recovery point among the SEI messages says to be wrong; `None`
/// without a recovery point.
fn recovery_point<S: Syntax>(messages: &[u8]) -> Option<u32> {
    const RECOVERY_POINT: usize = 6;
    let mut zeros = 0;
    // Without the bytes that prevent start codes.
    let mut bytes = messages.iter().copied().filter(|byte| {
        let inserted = zeros >= 2 && *byte == 3;
        zeros = if *byte == 0 { zeros + 1 } else { 0 };
        !inserted
    });
    loop {
        // The type, and then the length, are sums of bytes of which the last is below 255.
        let mut sum = || {
            let mut sum = 0;
            loop {
                let byte = bytes.next()?;
                sum += usize::from(byte);
                if byte < 255 {
                    return Some(sum);
                }
            }
        };
        let (kind, length) = (sum()?, sum()?);
        if kind == RECOVERY_POINT {
            // The count is below 65,536, and its code has 33 bits at most.
            let mut code = [0; 5];
            code.iter_mut()
                .zip(bytes.take(length))
                .for_each(|(to, from)| *to = from);
            return Some(S::recovery(&mut Bits::new(&code)).unwrap_or(0));
        }
        if length > 0 {
            bytes.nth(length - 1)?;
        }
    }
}
