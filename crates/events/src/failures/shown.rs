//! Text that strangers had a part in, made fit to be shown.

use glassline_runtime::is_deceptive;

/// Returns at most `bytes_max` bytes of `text`, without characters that change how the text around
/// them is shown ([`is_deceptive`]).
pub fn shown(text: &str, bytes_max: usize) -> Box<str> {
    let mut shown = String::with_capacity(text.len().min(bytes_max));
    for character in text.chars() {
        let character = if is_deceptive(character) {
            char::REPLACEMENT_CHARACTER
        } else {
            character
        };
        if shown.len() + character.len_utf8() + '…'.len_utf8() > bytes_max {
            shown.push('…');
            break;
        }
        shown.push(character);
    }
    shown.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_short_and_do_not_write_over_others() {
        assert_eq!(&*shown("the offer has H.265", 64), "the offer has H.265");
        let terminal = shown("a\u{1b}[2Jb\r\nc\u{202e}d", 64);
        assert_eq!(&*terminal, "a\u{fffd}[2Jb\u{fffd}\u{fffd}c\u{fffd}d");
        let long = shown(&"ä".repeat(100), 21);
        assert_eq!(&*long, &*("ä".repeat(9) + "…"));
        assert_eq!(long.len(), 21);
    }
}
