//! Sessions of clients that an operator keeps away.

use std::time::Instant;

use glassline_access::auth::{Guest, Users};

use super::access::RightsRequest;

impl RightsRequest<'_> {
    /// Returns whether an operator keeps the client away from a stream that the session may lead to: from
    /// the one in the path, from one in a folder of this path, from any if there is no path.
    pub(super) fn is_excluded(&self, users: &Users, user: Option<&str>) -> bool {
        let address = self.by.address();
        let leads_to = |stream: &str| {
            let rest = stream.strip_prefix(self.path);
            self.path.is_empty() || rest.is_some_and(|it| it.is_empty() || it.starts_with('/'))
        };
        let guest = Guest { address, user };
        let until = users.exclusions().until(guest, leads_to, Instant::now());
        until.is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use glassline_config::Auth;

    use super::*;
    use glassline_access::auth::{Excluded, Listener, Requester};
    use glassline_quic::moq::Role;

    #[test]
    fn a_session_is_refused_that_may_lead_to_the_stream() {
        let users = Users::new(&Auth::default());
        let (now, address) = (Instant::now(), [192, 0, 2, 1].into());
        let (whom, stream) = (Excluded::Address(address), Some("site/cam".to_owned()));
        let until = now + Duration::from_secs(60);
        let made = users.exclusions().add(whom, stream, until, now);
        made.expect("a place");
        for (path, expected) in [
            ("site/cam", true),
            ("site", true),
            ("", true),
            ("sit", false),
            ("site/cam2", false),
        ] {
            let asked = RightsRequest {
                by: Requester::direct(address, Listener::Quic),
                local: ([192, 0, 2, 200], 4443).into(),
                page: None,
                path,
                query: "",
                role: Role::Subscriber,
            };
            assert_eq!(asked.is_excluded(&users, None), expected, "{path}");
        }
    }
}
