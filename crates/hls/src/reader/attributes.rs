//! Attribute lists of tags (§4.2).

use std::time::Duration;

use super::fault::{Faults, shown};
use super::tag::Tag;
use super::value::{self, DateTime};
use super::variables::Variables;

/// An attribute with its value as it stands there.
#[derive(Debug)]
struct Attribute<'a> {
    name: &'a str,
    /// The value, without quotes.
    value: &'a str,
    is_quoted: bool,
}

/// Most attributes of one tag that are kept.
const ATTRIBUTES_MAX: usize = 64;

/// The attributes of one tag. A value of another type than the one asked for is a fault, and absent.
pub(super) struct Attributes<'a, 'scope> {
    all: Vec<Attribute<'a>>,
    tag: Tag,
    line: usize,
    variables: &'scope mut Variables,
    faults: &'scope mut Faults,
}

impl<'a, 'scope> Attributes<'a, 'scope> {
    /// Divides the value of a tag into attributes.
    pub(super) fn read(
        tag: Tag,
        text: &'a str,
        line: usize,
        variables: &'scope mut Variables,
        faults: &'scope mut Faults,
    ) -> Self {
        let mut all: Vec<Attribute<'_>> = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let Some((attribute, behind)) = next(rest) else {
                let shown = shown(rest);
                faults.add(
                    line,
                    "4.2",
                    format!("{} is no list of NAME=VALUE at '{shown}'", tag.name()),
                );
                break;
            };
            rest = behind;
            if all.iter().any(|it| it.name == attribute.name) {
                let name = attribute.name;
                faults.add(
                    line,
                    "4.2",
                    format!("{} has the attribute {name} twice", tag.name()),
                );
            } else if all.len() < ATTRIBUTES_MAX {
                all.push(attribute);
            }
        }
        Self {
            all,
            tag,
            line,
            variables,
            faults,
        }
    }

    /// The text of a quoted-string, its variables replaced.
    pub(super) fn text(&mut self, name: &'static str) -> Option<String> {
        let (value, is_quoted) = self.raw(name)?;
        if !is_quoted {
            self.wrong(name, value, "a text in quotes");
            return None;
        }
        Some(self.variables.replaced(value, self.line, self.faults))
    }

    /// The text of a quoted-string that must not be empty.
    pub(super) fn full_text(&mut self, name: &'static str) -> Option<String> {
        let text = self.text(name)?;
        if text.is_empty() {
            self.wrong(name, "", "a text that is not empty");
            return None;
        }
        Some(text)
    }

    /// The words of an enumerated-string.
    pub(super) fn word(&mut self, name: &'static str) -> Option<String> {
        let (value, is_quoted) = self.raw(name)?;
        if is_quoted {
            self.wrong(name, value, "a word without quotes");
        }
        Some(value.to_owned())
    }

    /// Whether the attribute is `YES`. `NO` is one of its values only where `may_be_no`.
    pub(super) fn yes(&mut self, name: &'static str, may_be_no: bool) -> Option<bool> {
        let word = self.word(name)?;
        match (word.as_str(), may_be_no) {
            ("YES", _) => Some(true),
            ("NO", true) => Some(false),
            (other, true) => {
                self.wrong(name, other, "YES or NO");
                None
            }
            (other, false) => {
                self.wrong(name, other, "YES; without the attribute it is no");
                None
            }
        }
    }

    pub(super) fn integer(&mut self, name: &'static str) -> Option<u64> {
        self.number(name, "a whole number", value::integer)
    }

    pub(super) fn seconds(&mut self, name: &'static str) -> Option<Duration> {
        self.number(name, "a number of seconds", value::seconds)
    }

    pub(super) fn signed_seconds(&mut self, name: &'static str) -> Option<(bool, Duration)> {
        self.number(name, "a number of seconds", value::signed_seconds)
    }

    pub(super) fn resolution(&mut self, name: &'static str) -> Option<(u64, u64)> {
        self.number(name, "WIDTHxHEIGHT", value::resolution)
    }

    /// The frame rate, which is a number in decimal notation.
    pub(super) fn decimal(&mut self, name: &'static str) -> Option<f64> {
        let wanted = "a number in decimal notation";
        self.number(name, wanted, |text| {
            Some(value::seconds(text)?.as_secs_f64())
        })
    }

    pub(super) fn date(&mut self, name: &'static str) -> Option<DateTime> {
        let text = self.text(name)?;
        let date = DateTime::parse(&text);
        if date.is_none() {
            self.wrong(name, &text, "a date of ISO 8601");
        }
        date
    }

    /// Notes that the tag lacks an attribute that it must have.
    pub(super) fn must_have<T>(&mut self, name: &'static str, value: Option<T>) -> Option<T> {
        if value.is_none() && !self.has(name) {
            let tag = self.tag;
            let what = format!("{} lacks its attribute {name}", tag.name());
            self.faults.add(self.line, tag.section(), what);
        }
        value
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.all.iter().any(|it| it.name == name)
    }

    /// Whether an attribute begins with `prefix`.
    pub(super) fn has_prefix(&self, prefix: &str) -> bool {
        self.all.iter().any(|it| it.name.starts_with(prefix))
    }

    /// The name and text of every attribute, as it stands there.
    pub(super) fn pairs(&self) -> Vec<(String, String)> {
        let pair = |it: &Attribute<'_>| (it.name.to_owned(), it.value.to_owned());
        self.all.iter().map(pair).collect()
    }

    /// Notes a fault of this tag.
    pub(super) fn fault(&mut self, what: impl Into<String>) {
        self.faults.add(self.line, self.tag.section(), what);
    }

    fn number<T>(
        &mut self,
        name: &'static str,
        wanted: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Option<T> {
        let (value, is_quoted) = self.raw(name)?;
        let number = read(value);
        if number.is_none() || is_quoted {
            self.wrong(name, value, &format!("{wanted}, without quotes"));
        }
        number
    }

    fn raw(&self, name: &str) -> Option<(&'a str, bool)> {
        let found = self.all.iter().find(|it| it.name == name)?;
        Some((found.value, found.is_quoted))
    }

    fn wrong(&mut self, name: &str, value: &str, wanted: &str) {
        let tag = self.tag;
        let what = format!(
            "{name} of {} is '{}' and must be {wanted}",
            tag.name(),
            shown(value)
        );
        self.faults.add(self.line, tag.section(), what);
    }
}

/// The attribute at the start of `text`, and what follows its comma.
fn next(text: &str) -> Option<(Attribute<'_>, &str)> {
    let (name, rest) = text.split_once('=')?;
    let is_name = |it: u8| it.is_ascii_uppercase() || it.is_ascii_digit() || it == b'-';
    if name.is_empty() || !name.bytes().all(is_name) {
        return None;
    }
    if let Some(rest) = rest.strip_prefix('"') {
        let (value, behind) = rest.split_once('"')?;
        let behind = match behind {
            "" => "",
            behind => behind.strip_prefix(',')?,
        };
        return Some((
            Attribute {
                name,
                value,
                is_quoted: true,
            },
            behind,
        ));
    }
    let (value, behind) = rest.split_once(',').unwrap_or((rest, ""));
    let is_value = !value.is_empty() && !value.contains(['"', ' ', '\t']);
    is_value.then_some((
        Attribute {
            name,
            value,
            is_quoted: false,
        },
        behind,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with<T>(text: &str, ask: impl FnOnce(&mut Attributes<'_, '_>) -> T) -> (T, Vec<String>) {
        let (mut variables, mut faults) = (Variables::default(), Faults::default());
        let mut attributes = Attributes::read(Tag::Part, text, 3, &mut variables, &mut faults);
        let got = ask(&mut attributes);
        let faults = faults.into_sorted();
        (got, faults.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn quotes_may_hold_commas_and_equal_signs() {
        let text = r#"URI="a,b=c",DURATION=0.5,NEW=x,INDEPENDENT=YES"#;
        let (got, faults) = with(text, |it| {
            (
                it.full_text("URI"),
                it.seconds("DURATION"),
                it.yes("INDEPENDENT", false),
                it.has("GAP"),
            )
        });
        let uri = Some("a,b=c".to_owned());
        assert_eq!(
            got,
            (uri, Some(Duration::from_millis(500)), Some(true), false)
        );
        assert!(faults.is_empty(), "{faults:?}");
    }

    #[test]
    fn a_fault_names_line_attribute_and_section() {
        let cases = [
            (
                "URI=a",
                "line 3: URI of EXT-X-PART is 'a' and must be a text in quotes (§4.4.4.9)",
            ),
            (
                "URI=\"\"",
                "line 3: URI of EXT-X-PART is '' and must be a text that is not empty (§4.4.4.9)",
            ),
            (
                "URI=\"a\",URI=\"b\"",
                "line 3: EXT-X-PART has the attribute URI twice (§4.2)",
            ),
            (
                "URI=\"a\", GAP=YES",
                "line 3: EXT-X-PART is no list of NAME=VALUE at ' GAP=YES' (§4.2)",
            ),
            (
                "uri=\"a\"",
                "line 3: EXT-X-PART is no list of NAME=VALUE at 'uri=\"a\"' (§4.2)",
            ),
            ("", "line 3: EXT-X-PART lacks its attribute URI (§4.4.4.9)"),
        ];
        for (text, wanted) in cases {
            let (_, faults) = with(text, |it| {
                let uri = it.full_text("URI");
                it.must_have("URI", uri)
            });
            assert_eq!(faults.first().map(String::as_str), Some(wanted), "{text}");
        }
    }
}
