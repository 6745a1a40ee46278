//! Users files: any text is refused with a place and a reason, or gives users of which each stands
//! once, whose rights keep to what the file says, and whose secrets are not printed.

use std::collections::BTreeSet;

use glassline_config::users_in;

pub(crate) fn run(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let users = match users_in(&text, "users.yml") {
        Ok(users) => users,
        Err(error) => {
            assert!(!error.reason.is_empty());
            assert!(error.to_string().starts_with("users.yml"), "{error}");
            return;
        }
    };
    let names: BTreeSet<_> = users.iter().map(|user| user.name.as_str()).collect();
    assert_eq!(names.len(), users.len(), "a name twice");
    for user in &users {
        let name = user.name.as_str();
        assert!(!name.is_empty() && name.len() <= 64);
        assert!(!name.contains(':'), "Basic could not carry it");
        let printed = format!("{user:?}");
        for word in text.split(|it: char| !it.is_ascii_hexdigit()) {
            // The digest secrets of RTSP: whoever has one can log in.
            assert!(word.len() != 32 && word.len() != 64 || !printed.contains(word));
        }
    }
}
