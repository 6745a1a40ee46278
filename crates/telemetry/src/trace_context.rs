//! Identifiers of traces and spans, and the header `traceparent` (W3C Trace Context).

use std::fmt;

use rand::RngCore;

/// Identifier of a trace: 16 bytes, not all zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TraceId([u8; 16]);

/// Identifier of a span: 8 bytes, not all zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SpanId([u8; 8]);

/// The trace that a join belongs to.
#[derive(Clone, Copy, Debug)]
pub struct TraceContext {
    /// Identity of the trace, drawn here or by the client.
    pub(crate) trace: TraceId,
    /// The span above the join; `None` if the join begins the trace.
    pub(crate) parent: Option<SpanId>,
    /// Whether the trace above is recorded; true if the join begins the trace.
    pub(crate) is_sampled: bool,
}

impl TraceContext {
    /// Draws the identifier of a trace that begins here.
    pub fn draw() -> Self {
        Self {
            trace: TraceId(drawn()),
            parent: None,
            is_sampled: true,
        }
    }

    /// Reads the header `traceparent`. Returns `None` if it does not follow the standard.
    ///
    /// Source: W3C Trace Context, §3.2: version, trace, parent and flags, in lower-case hexadecimal.
    pub fn parse(header: &str) -> Option<Self> {
        let mut fields = header.trim().split('-');
        let mut field = || fields.next();
        let (version, trace, parent, flags) = (field()?, field()?, field()?, field()?);
        let [version] = from_hex::<1>(version)?;
        // Later versions may have more fields; 255 is none.
        if version == 0xff || version == 0 && field().is_some() {
            return None;
        }
        let (trace, parent, [flags]) = (from_hex(trace)?, from_hex(parent)?, from_hex(flags)?);
        let is_set = trace != [0; 16] && parent != [0; 8];
        is_set.then_some(Self {
            trace: TraceId(trace),
            parent: Some(SpanId(parent)),
            is_sampled: flags & 1 == 1,
        })
    }
}

impl TraceId {
    /// Returns the place of the trace in the range of all, 0 to 1, by which a share is chosen. All
    /// servers choose the same traces.
    pub(crate) fn share(self) -> f64 {
        let [.., a, b, c, d] = self.0;
        f64::from(u32::from_be_bytes([a, b, c, d])) / f64::from(u32::MAX)
    }
}

impl SpanId {
    /// Draws the identifier of a span.
    pub(crate) fn draw() -> Self {
        Self(drawn())
    }
}

/// Draws bytes that are not all zero.
fn drawn<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    while bytes == [0; N] {
        rand::rng().fill_bytes(&mut bytes);
    }
    bytes
}

fn from_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let is_lower = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if text.len() != 2 * N || !text.bytes().all(is_lower) {
        return None;
    }
    let mut bytes = [0; N];
    for (place, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * place..2 * place + 2], 16).ok()?;
    }
    Some(bytes)
}

fn write_hex(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    const PARENT: &str = "b7ad6b7169203331";

    #[test]
    fn a_traceparent_is_read_and_what_breaks_the_standard_is_not() {
        let read = TraceContext::parse(&format!("00-{TRACE}-{PARENT}-01")).expect("a header");
        assert_eq!(read.trace.to_string(), TRACE);
        assert_eq!(
            read.parent.map(|it| it.to_string()).as_deref(),
            Some(PARENT)
        );
        assert!(read.is_sampled);
        let later = TraceContext::parse(&format!("01-{TRACE}-{PARENT}-00-more"));
        assert!(!later.expect("a later version").is_sampled);
        let zeros = "0".repeat(32);
        for bad in [
            String::new(),
            format!("00-{TRACE}-{PARENT}"),
            format!("ff-{TRACE}-{PARENT}-01"),
            format!("00-{zeros}-{PARENT}-01"),
            format!("00-{TRACE}-{}-01", "0".repeat(16)),
            format!("00-{}-{PARENT}-01", TRACE.to_uppercase()),
            format!("00-{TRACE}-{PARENT}-01-more"),
            format!("00-{TRACE}é-{PARENT}-01"),
        ] {
            assert!(TraceContext::parse(&bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn drawn_traces_differ_and_spread_over_the_shares() {
        let drawn: Vec<_> = (0..200).map(|_| TraceContext::draw().trace).collect();
        assert_ne!(drawn[0], drawn[1]);
        let low = drawn.iter().filter(|it| it.share() < 0.5).count();
        assert!((40..=160).contains(&low), "{low} of 200");
    }
}
