use glassline_media::fields;

use crate::ParseError;

/// The header extension elements of a packet, in one-byte or two-byte form (RFC 8285).
///
/// A header extension of any other profile (RFC 3550 §5.3.1) has no elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extensions<'a> {
    form: Form,
    data: &'a [u8],
}

impl<'a> Extensions<'a> {
    pub(crate) fn new(profile: u16, data: &'a [u8]) -> Self {
        Self {
            form: Form::of(profile),
            data,
        }
    }

    /// Returns the data, possibly empty, of the first element with the given id.
    pub fn get(&self, id: u8) -> Option<&'a [u8]> {
        self.iter()
            .find(|(other, _)| *other == id)
            .map(|(_, data)| data)
    }

    /// Iterates over the elements as (id, data), in order. Ends at the first malformed element.
    pub fn iter(&self) -> ExtensionsIter<'a> {
        ExtensionsIter {
            form: self.form,
            rest: self.data,
        }
    }

    /// Returns whether there is no extension, or one without elements.
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }
}

impl<'a> IntoIterator for &Extensions<'a> {
    type Item = (u8, &'a [u8]);
    type IntoIter = ExtensionsIter<'a>;
    fn into_iter(self) -> ExtensionsIter<'a> {
        self.iter()
    }
}

/// Iterator over the elements of [`Extensions`].
#[derive(Clone, Debug)]
pub struct ExtensionsIter<'a> {
    form: Form,
    rest: &'a [u8],
}

impl<'a> Iterator for ExtensionsIter<'a> {
    type Item = (u8, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (&first, rest) = self.rest.split_first()?;
            if first == 0 {
                // Padding is a byte of zero in both forms (RFC 8285 §4.2, §4.3).
                self.rest = rest;
                continue;
            }
            let (id, len, rest) = match self.form {
                Form::None => return None,
                Form::OneByte => (first >> 4, usize::from(first & 0x0f) + 1, rest),
                Form::TwoByte => {
                    let (&len, rest) = rest.split_first()?;
                    (first, usize::from(len), rest)
                }
            };
            if self.form == Form::OneByte && (id == 15 || id == 0) {
                // Id 15 ends processing (RFC 8285 §4.2). Id 0 with a length is not padding, and
                // its meaning is not defined: end as well.
                self.rest = &[];
                return None;
            }
            let Some((data, rest)) = rest.split_at_checked(len) else {
                self.rest = &[];
                return None;
            };
            self.rest = rest;
            return Some((id, data));
        }
    }
}

/// Profile value of one-byte headers (RFC 8285 §4.2).
const ONE_BYTE_PROFILE: u16 = 0xBEDE;
/// Profile value of two-byte headers with application bits zero (RFC 8285 §4.3).
const TWO_BYTE_PROFILE: u16 = 0x1000;
/// Length of profile and length fields in front of the elements, in bytes (RFC 3550 §5.3.1).
pub(crate) const PREFIX_BYTES: usize = 4;

/// Form of the element headers (RFC 8285 §4.1.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Form {
    #[default]
    None,
    OneByte,
    TwoByte,
}

impl Form {
    fn of(profile: u16) -> Self {
        match profile {
            ONE_BYTE_PROFILE => Self::OneByte,
            profile if profile & 0xfff0 == TWO_BYTE_PROFILE => Self::TwoByte,
            _ => Self::None,
        }
    }

    /// Returns the smaller form that can carry all of `elements`.
    fn for_elements(elements: &[(u8, &[u8])]) -> Self {
        let fits_one_byte = elements
            .iter()
            .all(|(id, data)| (1..=14).contains(id) && (1..=16).contains(&data.len()));
        if fits_one_byte {
            Self::OneByte
        } else {
            Self::TwoByte
        }
    }

    /// Length of the header of one element in bytes.
    fn element_header_bytes(self) -> usize {
        match self {
            Self::None | Self::OneByte => 1,
            Self::TwoByte => 2,
        }
    }
}

/// Number of bytes that `elements` take in a packet header, including prefix and padding; 0
/// without elements.
pub(crate) fn size(elements: &[(u8, &[u8])]) -> usize {
    if elements.is_empty() {
        return 0;
    }
    PREFIX_BYTES + elements_size(elements, Form::for_elements(elements)).next_multiple_of(4)
}

fn elements_size(elements: &[(u8, &[u8])], form: Form) -> usize {
    elements
        .iter()
        .map(|(_, data)| form.element_header_bytes() + data.len())
        .sum()
}

/// Writes `elements` to the front of `out`. Returns the number of bytes written.
///
/// Panics if `out` is shorter than [`size`], if an id is 0, or if data are longer than 255
/// bytes; the caller chooses ids and sizes.
pub(crate) fn write(out: &mut [u8], elements: &[(u8, &[u8])]) -> usize {
    if elements.is_empty() {
        return 0;
    }
    let form = Form::for_elements(elements);
    let words = elements_size(elements, form).div_ceil(4);
    let end = PREFIX_BYTES + words * 4;
    let out = &mut out[..end];
    let profile = if form == Form::OneByte {
        ONE_BYTE_PROFILE
    } else {
        TWO_BYTE_PROFILE
    };
    out[0..2].copy_from_slice(&profile.to_be_bytes());
    out[2..4].copy_from_slice(&(words as u16).to_be_bytes());
    let mut at = PREFIX_BYTES;
    for &(id, data) in elements {
        assert!(
            id != 0 && data.len() <= 255,
            "header extension id {id} with {} bytes cannot be written",
            data.len()
        );
        if form == Form::OneByte {
            out[at] = id << 4 | (data.len() as u8 - 1);
        } else {
            out[at] = id;
            out[at + 1] = data.len() as u8;
        }
        at += form.element_header_bytes();
        out[at..at + data.len()].copy_from_slice(data);
        at += data.len();
    }
    out[at..].fill(0);
    end
}

/// Parses the extension block that begins at `offset`. Returns its profile and the offset
/// behind its data.
pub(crate) fn block(bytes: &[u8], offset: usize) -> Result<(u16, usize), ParseError> {
    fields::need("header extension", bytes.len(), offset, PREFIX_BYTES)?;
    let profile = fields::u16_at(bytes, offset);
    let data = usize::from(fields::u16_at(bytes, offset + 2)) * 4;
    let start = offset + PREFIX_BYTES;
    fields::need("header extension data", bytes.len(), start, data)?;
    Ok((profile, start + data))
}
