//! Fields of a path or a query whose value is a credential, as in
//! `rtsp://camera/user=admin&password=word&channel=1`.

use crate::HIDDEN;

/// Parts of names of such fields.
const PARTS: [&str; 9] = [
    "pass",
    "pwd",
    "psw",
    "secret",
    "token",
    "cred",
    "auth",
    "apikey",
    "signature",
];

/// Whole names of such fields.
const NAMES: [&str; 4] = ["key", "pw", "sig", "jwt"];

/// Returns `text` with the values of its secret fields hidden. A value ends at the next `&`: more is
/// hidden rather than less.
pub(crate) fn hide(text: &str) -> String {
    let fields: Vec<String> = text.split('&').map(hide_field).collect();
    fields.join("&")
}

fn hide_field(field: &str) -> String {
    for (at, _) in field.match_indices('=') {
        let is_name = |it: char| it.is_alphanumeric() || matches!(it, '-' | '.' | '%');
        let before = &field[..at];
        let name = before.rsplit(|it| !is_name(it)).next().unwrap_or_default();
        if is_secret(name) && at + 1 < field.len() {
            return format!("{before}={HIDDEN}");
        }
    }
    field.to_owned()
}

fn is_secret(name: &str) -> bool {
    let name = crate::decoded(name).to_ascii_lowercase();
    PARTS.iter().any(|part| name.contains(part)) || NAMES.contains(&name.as_str())
}
