//! Rights to read and publish over RTSP, from the [user store](crate::auth).

use std::net::IpAddr;

use glassline_rtsp::server::{Access, Answer, ClientCredentials, Refusal};

use crate::auth::Users;

/// The result of checking a request's credentials, as far as it is known at once.
#[derive(Debug, PartialEq)]
pub(super) enum Decision {
    /// The answer is known.
    Now(Answer),
    /// The password must be hashed first, which takes far longer than a polling thread may be
    /// blocked. [`by_name`] then gives the answer.
    Hash {
        /// Name of the user.
        user: String,
        /// Password to compare with the user's hash.
        password: String,
    },
}

/// Checks the credentials of a client at `peer` against users and tokens. A token is taken from the
/// URL's `?token=`, or as the password of any user of Basic.
pub(super) fn authorize(
    users: &Users,
    peer: IpAddr,
    access: Access,
    path: &str,
    query: Option<&str>,
    shown: Option<ClientCredentials>,
) -> Decision {
    let granted = |user: Option<&str>| {
        Decision::Now(Answer::Authorized {
            user: user.map(str::to_owned),
        })
    };
    if users.is_open(access, peer) {
        return granted(None);
    }
    let token = query.and_then(query_token);
    if token.is_some_and(|token| users.token_opens(access, &token)) {
        return granted(None);
    }
    match shown {
        // No credentials would be accepted.
        None if !users.any() && !users.has_token(access) => {
            Decision::Now(Answer::Refused(Refusal::Forbidden))
        }
        None => Decision::Now(Answer::Refused(Refusal::Unauthorized)),
        Some(ClientCredentials::Basic(user)) if users.token_opens(access, &user.password) => {
            granted(Some(&user.name))
        }
        Some(ClientCredentials::Basic(user)) => Decision::Hash {
            user: user.name,
            password: user.password,
        },
        Some(ClientCredentials::Digest(response)) => {
            let user = response.user();
            let is_right = response.verify(&users.digest_secret(user, response.algorithm()));
            Decision::Now(by_name(users, is_right, user, access, path))
        }
    }
}

/// Returns the answer to a user whose password was right, or wrong.
pub(super) fn by_name(
    users: &Users,
    is_right: bool,
    user: &str,
    access: Access,
    path: &str,
) -> Answer {
    if !is_right {
        Answer::Refused(Refusal::Unauthorized)
    } else if users.may(user, access, path) {
        Answer::Authorized {
            user: Some(user.to_owned()),
        }
    } else {
        Answer::Refused(Refusal::Forbidden)
    }
}

fn query_token(query: &str) -> Option<String> {
    let mut pairs = url::form_urlencoded::parse(query.as_bytes());
    pairs.find_map(|(name, value)| (name == "token").then(|| value.into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    use glassline_rtsp::auth::User;

    use crate::config::{Auth, Secret};

    const HERE: [u8; 4] = [127, 0, 0, 1];
    const AWAY: [u8; 4] = [192, 0, 2, 1];

    fn ask(auth: &Auth, peer: [u8; 4], access: Access, query: Option<&str>) -> Decision {
        authorize(&Users::new(auth), peer.into(), access, "cam", query, None)
    }

    fn open() -> Decision {
        Decision::Now(Answer::Authorized { user: None })
    }

    fn refused(refusal: Refusal) -> Decision {
        Decision::Now(Answer::Refused(refusal))
    }

    #[test]
    fn without_users_and_tokens_everybody_reads_and_this_machine_publishes() {
        let auth = Auth::default();
        assert_eq!(ask(&auth, AWAY, Access::Read, None), open());
        assert_eq!(ask(&auth, HERE, Access::Publish, None), open());
        assert_eq!(
            ask(&auth, AWAY, Access::Publish, None),
            refused(Refusal::Forbidden),
            "asking for a password would be in vain"
        );
    }

    #[test]
    fn each_right_has_its_own_token() {
        let auth = Auth {
            read_token: Secret::new("look-1234567").ok(),
            publish_token: Secret::new("show-1234567").ok(),
            ..Auth::default()
        };
        let read = |query| ask(&auth, HERE, Access::Read, query);
        assert_eq!(read(None), refused(Refusal::Unauthorized));
        assert_eq!(
            read(Some("token=show-1234567")),
            refused(Refusal::Unauthorized)
        );
        assert_eq!(read(Some("a=b&token=look-1234567")), open());
        let basic = ClientCredentials::Basic(User {
            name: "ann".to_owned(),
            password: "show-1234567".to_owned(),
        });
        let users = Users::new(&auth);
        let answer = |access| {
            let basic = Some(basic.clone());
            authorize(&users, AWAY.into(), access, "cam", None, basic)
        };
        let ann = Answer::Authorized {
            user: Some("ann".to_owned()),
        };
        assert_eq!(answer(Access::Publish), Decision::Now(ann));
        assert!(matches!(answer(Access::Read), Decision::Hash { .. }));
    }
}
