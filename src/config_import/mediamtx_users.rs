//! Users of MediaMTX with their permissions.

use glassline_access::auth::{Account, Name, Pattern, Role, salt};
use glassline_config::YamlNode;

use super::draft::Draft;

/// Takes the users.
pub(super) fn take(list: &YamlNode, draft: &mut Draft) {
    let is_any = |user: &YamlNode| user.get("user").map_or("", YamlNode::text) == "any";
    let has_others = list.items().iter().any(|it| !is_any(it));
    for user in list.items() {
        match is_any(user) {
            true => everybody(user, has_others, draft),
            false => named(user, draft),
        }
    }
}

/// The actions of a user: each with its path and its line.
fn permissions(user: &YamlNode) -> impl Iterator<Item = (u64, &str, &str)> {
    let permissions = user
        .get("permissions")
        .into_iter()
        .flat_map(YamlNode::items);
    permissions.map(|it| {
        let text = |key: &str| it.get(key).map_or("", YamlNode::text);
        (it.line, text("action"), text("path"))
    })
}

/// Notes where the rights of everybody are others here.
fn everybody(user: &YamlNode, has_others: bool, draft: &mut Draft) {
    let is_of_loopback = |it: &YamlNode| ["127.0.0.1", "::1"].contains(&it.text());
    let from = user.get("ips").map_or(&[][..], YamlNode::items);
    if !from.is_empty() && from.iter().all(is_of_loopback) {
        // This machine has these rights here, too.
        return;
    }
    for (line, action, _) in permissions(user) {
        match action {
            "read" if has_others => draft.note(
                line,
                "any",
                "everybody may read there; here users close reading: leave them out, or give each \
                 viewer one",
            ),
            "publish" => draft.note(
                line,
                "any",
                "everybody may publish there; here this machine may, or who has `auth.publish_token` or \
                 a user",
            ),
            "api" | "metrics" => draft.note(line, "any", "the admin port is for this machine, or for roles"),
            _ => {}
        }
    }
}

fn named(user: &YamlNode, draft: &mut Draft) {
    let text = |key: &str| user.get(key).map_or("", YamlNode::text);
    let (line, name, password) = (user.line, text("user"), text("pass"));
    if ["sha256:", "argon2:"]
        .iter()
        .any(|it| password.starts_with(it) || name.starts_with(it))
    {
        let why = "hashed name or password: make the user by `glassline user add`";
        return draft.note(line, "authInternalUsers", why);
    }
    let name = match Name::parse(name) {
        Ok(name) => name,
        Err(error) => return draft.note(line, name, error.to_string()),
    };
    if let Some(ips) = user.get("ips").filter(|it| !it.items().is_empty()) {
        draft.note(
            ips.line,
            name.as_str(),
            "users may come from every address here",
        );
    }
    let mut account = Account::new(name, password, &salt());
    for (line, action, path) in permissions(user) {
        let patterns = match action {
            "read" => &mut account.read,
            "publish" => &mut account.publish,
            "playback" => &mut account.playback,
            "api" => {
                account.role = Some(Role::Admin);
                continue;
            }
            "metrics" => {
                account.role = account.role.or(Some(Role::Viewer));
                continue;
            }
            other => {
                draft.note(
                    line,
                    account.name.as_str(),
                    format!("'{other}' has no counterpart here"),
                );
                continue;
            }
        };
        match pattern(path) {
            Some(pattern) => patterns.push(pattern),
            None => draft.note(
                line,
                account.name.as_str(),
                format!("'{path}' is no name of a stream: write a pattern like 'site/*' or 'cam*'"),
            ),
        }
    }
    // Whoever plays recordings there gets them as files, too.
    account.export.clone_from(&account.playback);
    match account.rights().is_empty() && account.role.is_none() {
        true => draft.note(
            user.line,
            account.name.as_str(),
            "a user without rights is left out",
        ),
        false => draft.users.push(account),
    }
}

/// Returns the pattern of a path: all without one; `None` for a regular expression that says more than
/// how a name begins.
fn pattern(path: &str) -> Option<Pattern> {
    let Some(expression) = path.strip_prefix('~') else {
        let text = if path.is_empty() { "**" } else { path };
        return Pattern::parse(text)
            .ok()
            .filter(|_| path.is_empty() || !path.contains('*'));
    };
    let beginning = expression.strip_prefix('^')?;
    let beginning = beginning.strip_suffix('$').unwrap_or(beginning);
    let folder = beginning
        .strip_suffix(".*")
        .or_else(|| beginning.strip_suffix(".+"));
    let is_plain = |it: &str| {
        it.chars()
            .all(|c| c.is_ascii_alphanumeric() || "/_-".contains(c))
    };
    match folder {
        Some(folder) if folder.ends_with('/') && is_plain(folder) => {
            Pattern::parse(&format!("{folder}**")).ok()
        }
        _ => None,
    }
}
