//! The credentials in the query of a session's URL.

/// A token, or a name with its password.
#[derive(Debug, Default)]
pub(super) struct Shown {
    pub(super) token: Option<String>,
    pub(super) user: Option<(String, String)>,
}

impl Shown {
    pub(super) fn of(query: &str) -> Self {
        let (mut shown, mut name, mut password) = (Self::default(), None, None);
        for (key, value) in url::form_urlencoded::parse(query.as_bytes()) {
            match &*key {
                "token" | "jwt" => shown.token = Some(value.into_owned()),
                "user" => name = Some(value.into_owned()),
                "password" => password = Some(value.into_owned()),
                _ => {}
            }
        }
        shown.user = name.map(|name| (name, password.unwrap_or_default()));
        shown
    }
}
