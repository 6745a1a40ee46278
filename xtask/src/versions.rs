//! Reads `peers/versions.toml`, the one file with the versions of peers.

use crate::process;

/// The value of `key` in section `[peer]`.
///
/// # Errors
/// The file, the section or the key is missing.
pub(crate) fn of(peer: &str, key: &str) -> Result<String, String> {
    let path = process::root().join("peers/versions.toml");
    let text = std::fs::read_to_string(&path)
        .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    find(&text, peer, key)
        .map(str::to_owned)
        .ok_or_else(|| format!("peers/versions.toml has no `{key}` in [{peer}]"))
}

/// Parser for the subset of TOML in that file: sections, and strings on one line.
fn find<'text>(text: &'text str, peer: &str, key: &str) -> Option<&'text str> {
    let mut section = "";
    for line in text.lines().map(str::trim) {
        if let Some(name) = line
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
        {
            section = name;
        } else if section == peer
            && let Some((name, value)) = line.split_once('=')
            && name.trim() == key
        {
            return value.trim().strip_prefix('"')?.split('"').next();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_is_found_in_its_own_section_only() {
        let text = "[a]\nversion = \"1\" # old\n[b]\nversion=\"2\"\n";
        assert_eq!(find(text, "a", "version"), Some("1"));
        assert_eq!(find(text, "b", "version"), Some("2"));
        assert_eq!(find(text, "b", "other"), None);
        assert_eq!(find(text, "c", "version"), None);
    }

    #[test]
    fn aiortc_is_pinned() {
        assert!(of("aiortc", "version").is_ok());
    }
}
