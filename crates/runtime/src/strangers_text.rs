//! Text that strangers chose, where people and programs read it line by line.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Returns whether a character changes how the text around it is shown, or is not seen at all: control
/// characters (C0, C1), separators of lines and paragraphs, marks, overrides and isolates of the
/// direction of writing (UAX #9), zero-width and other invisible characters, variation selectors,
/// fillers, and tags.
pub fn is_deceptive(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Returns JSON with the same content, in which each deceptive character of a text is written as its
/// escape (RFC 8259 §7). Such characters stand in texts only, but for the ASCII ones between them.
pub fn escaped_json(json: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| byte.is_ascii() && byte != 0x7f;
    let is_escaped = |it: char| !it.is_ascii_control() && is_deceptive(it) || it == '\u{7f}';
    if json.bytes().all(is_plain) || !json.contains(is_escaped) {
        return Cow::Borrowed(json);
    }
    let mut escaped = String::with_capacity(json.len() + 16);
    for character in json.chars() {
        if is_escaped(character) {
            for unit in character.encode_utf16(&mut [0; 2]) {
                // A string takes everything.
                let _ = write!(escaped, "\\u{unit:04x}");
            }
        } else {
            escaped.push(character);
        }
    }
    Cow::Owned(escaped)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

    use super::*;

    #[test]
    fn what_turns_hides_or_breaks_a_line_is_deceptive_and_letters_are_not() {
        for code in [
            0x0, 0x1b, 0x7f, 0x85, 0x9b, 0xad, 0x61c, 0x200b, 0x200d, 0x200f, 0x2028, 0x2029,
            0x202a, 0x202e, 0x2060, 0x2066, 0x2069, 0xfeff, 0xfe0f, 0xfff9, 0xe0001, 0xe0041,
            0xe007f, 0xe0100,
        ] {
            let character = char::from_u32(code).expect("a character");
            assert!(is_deceptive(character), "{code:x}");
        }
        for character in "aZ9 ~äßЖ字한अع😀…\u{fffd}".chars() {
            assert!(!is_deceptive(character), "{character}");
        }
    }

    proptest! {
        /// The escapes change how a text is written, and nothing else.
        #[test]
        fn escaped_json_says_the_same_without_a_deceptive_character(text in any::<String>(), code in 0_u32..0xe_0200) {
            let text = format!("{text}{}", char::from_u32(code).unwrap_or('x'));
            let json = serde_json::json!({ "a": text, &text: 1 });
            let written = serde_json::to_string_pretty(&json).expect("plain data");
            let escaped = escaped_json(&written);
            prop_assert!(!escaped.chars().any(|it| it != '\n' && is_deceptive(it)), "{escaped:?}");
            prop_assert_eq!(serde_json::from_str::<serde_json::Value>(&escaped).expect("JSON"), json);
        }
    }
}
