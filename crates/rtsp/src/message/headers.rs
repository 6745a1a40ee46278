use super::single_line;

/// Header fields in order; names compare without regard to case, and may repeat.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers {
    fields: Vec<(String, String)>,
}

impl Headers {
    /// None yet.
    pub const fn new() -> Self {
        Self { fields: Vec::new() }
    }

    /// Adds a field behind the others. What would break the line it is written on
    /// becomes a space; a name without a letter is not added.
    pub fn push(&mut self, name: &str, value: &str) {
        let name: String = name.chars().filter(|&c| is_token(c)).collect();
        if !name.is_empty() {
            self.fields.push((name, single_line(value)));
        }
    }

    /// Replaces all fields of this name by one.
    pub fn set(&mut self, name: &str, value: &str) {
        self.fields
            .retain(|(old, _)| !old.eq_ignore_ascii_case(name));
        self.push(name, value);
    }

    /// The value of the first field of this name, without spaces around it.
    pub fn get(&self, name: &str) -> Option<&str> {
        let mut fields = self.fields.iter();
        let found = fields.find(|(field, _)| field.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// The values of all fields of this name.
    pub fn get_all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> + 'a {
        let fields = self.fields.iter();
        fields.filter_map(move |(field, value)| {
            field.eq_ignore_ascii_case(name).then_some(value.as_str())
        })
    }

    /// All names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let fields = self.fields.iter();
        fields.map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// How many fields.
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// There is none.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// The sequence number (RFC 2326 §12.17); `None` if absent or no number.
    pub fn cseq(&self) -> Option<u32> {
        // MediaTek cameras and some NVRs write `CSeq: 2;`, a few `CSeq: 02`.
        let text = self.get("CSeq")?;
        let end = text.find(|c: char| !c.is_ascii_digit());
        text[..end.unwrap_or(text.len())].parse().ok()
    }

    /// Continues the value of the last field (RFC 2068 §2.2); false if there is none.
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

/// A character of RFC 2068's `token`.
pub(super) fn is_token(character: char) -> bool {
    character.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(character)
}
