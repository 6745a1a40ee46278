use super::single_line;

/// Header fields in order. Names compare without regard to case and may repeat.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers {
    fields: Vec<(String, String)>,
}

impl Headers {
    /// Creates an empty list of fields.
    pub const fn new() -> Self {
        Self { fields: Vec::new() }
    }

    /// Appends a field. Control characters in the value become spaces; a name without a valid
    /// character is not appended.
    pub fn push(&mut self, name: &str, value: &str) {
        let name: String = name.chars().filter(|&c| is_token(c)).collect();
        if !name.is_empty() {
            self.fields.push((name, single_line(value)));
        }
    }

    /// Replaces all fields of this name by one, in the place of the first.
    pub fn set(&mut self, name: &str, value: &str) {
        let mut fields = self.fields.iter();
        let Some(at) = fields.position(|(old, _)| old.eq_ignore_ascii_case(name)) else {
            return self.push(name, value);
        };
        let mut rest = self.fields.split_off(at);
        rest.retain(|(old, _)| !old.eq_ignore_ascii_case(name));
        self.push(name, value);
        self.fields.append(&mut rest);
    }

    /// Returns the value of the first field of this name, without spaces around it.
    pub fn get(&self, name: &str) -> Option<&str> {
        let mut fields = self.fields.iter();
        let found = fields.find(|(field, _)| field.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// Returns the values of all fields of this name.
    pub fn get_all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> + 'a {
        let fields = self.fields.iter();
        fields.filter_map(move |(field, value)| {
            field.eq_ignore_ascii_case(name).then_some(value.as_str())
        })
    }

    /// Returns all names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let fields = self.fields.iter();
        fields.map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Returns the number of fields.
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// Returns whether there is no field.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Returns the sequence number (RFC 2326 §12.17); `None` if it is absent or not a number.
    pub fn cseq(&self) -> Option<u32> {
        // MediaTek cameras and some NVRs write `CSeq: 2;`, a few `CSeq: 02`.
        let text = self.get("CSeq")?;
        let end = text.find(|c: char| !c.is_ascii_digit());
        text[..end.unwrap_or(text.len())].parse().ok()
    }

    /// Appends a folded line to the value of the last field (RFC 2068 §2.2). Returns false if
    /// there is no field.
    pub(super) fn fold(&mut self, text: &str) -> bool {
        let Some((_, value)) = self.fields.last_mut() else {
            return false;
        };
        let text = single_line(text);
        if !value.is_empty() && !text.is_empty() {
            value.push(' ');
        }
        value.push_str(&text);
        true
    }
}

/// Returns whether `character` may be part of RFC 2068's `token`.
pub(super) fn is_token(character: char) -> bool {
    character.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(character)
}
