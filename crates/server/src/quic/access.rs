//! Rights to publish and read over QUIC, from the [user store](crate::auth).
//!
//! MoQ has no headers, so credentials are in the query of the URL that a session is opened with.
//! The query is encrypted by TLS and never logged. `token` or `jwt` is a token; `user` and
//! `password` are a user's.

use std::net::IpAddr;

use glassline_quic::moq::Role;

use crate::auth::{Access, Users};

/// The streams that a session may publish and read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rights {
    pub(super) publish: Scope,
    pub(super) read: Scope,
}

/// The streams that a right is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    None,
    All,
    /// The streams for which this user has the right.
    User(String),
}

impl Scope {
    /// Returns whether the right is for `stream`.
    pub(super) fn covers(&self, users: &Users, access: Access, stream: &str) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::User(name) => users.may(name, access, stream),
        }
    }

    fn is_some(&self) -> bool {
        *self != Self::None
    }
}

/// Returns the rights of a session from `peer` that is opened for `role` with this query; `None` if
/// it has no right to that.
pub(super) async fn rights(users: &Users, peer: IpAddr, query: &str, role: Role) -> Option<Rights> {
    let shown = Shown::of(query);
    let user = match &shown.user {
        Some((name, password)) if users.verify(name, password).await => Some(name),
        _ => None,
    };
    let scope = |access| {
        let token = shown.token.as_deref();
        if users.is_open(access, peer) || token.is_some_and(|it| users.token_opens(access, it)) {
            Scope::All
        } else {
            user.map_or(Scope::None, |name| Scope::User(name.clone()))
        }
    };
    let rights = Rights {
        publish: scope(Access::Publish),
        read: scope(Access::Read),
    };
    // A client with wrong credentials is refused even if the server is open to everybody, so that
    // it learns of the mistake.
    let tokens = shown.token.iter();
    let mut opens = [Access::Publish, Access::Read].into_iter();
    let in_vain = tokens.clone().next().is_some_and(|token| {
        let guarded =
            users.any() || users.has_token(Access::Read) || users.has_token(Access::Publish);
        guarded && !opens.any(|access| users.token_opens(access, token))
    }) || shown.user.is_some() && users.any() && user.is_none();
    let enough = match role {
        Role::Publisher => rights.publish.is_some(),
        Role::Subscriber => rights.read.is_some(),
        Role::Both => rights.publish.is_some() || rights.read.is_some(),
    };
    (enough && !in_vain).then_some(rights)
}

#[derive(Debug, Default)]
struct Shown {
    token: Option<String>,
    user: Option<(String, String)>,
}

impl Shown {
    fn of(query: &str) -> Self {
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

#[cfg(test)]
mod tests {
    use super::*;

    use crate::auth::{Account, Name, Pattern};
    use crate::config::{Auth, Secret};

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
    const AWAY: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

    async fn ask(auth: &Auth, peer: IpAddr, query: &str, role: Role) -> Option<(Scope, Scope)> {
        let rights = rights(&Users::new(auth), peer, query, role).await?;
        Some((rights.publish, rights.read))
    }

    #[tokio::test]
    async fn without_users_and_tokens_everybody_reads_and_this_machine_publishes() {
        let auth = Auth::default();
        let here = Some((Scope::All, Scope::All));
        assert_eq!(ask(&auth, HERE, "", Role::Both).await, here);
        assert_eq!(ask(&auth, HERE, "token=any", Role::Publisher).await, here);
        let away = Some((Scope::None, Scope::All));
        assert_eq!(ask(&auth, AWAY, "", Role::Both).await, away);
        assert_eq!(ask(&auth, AWAY, "", Role::Publisher).await, None);
    }

    #[tokio::test]
    async fn tokens_and_users_open_what_is_theirs() {
        let ann = Account {
            publish: vec![Pattern::parse("cam*").expect("a pattern")],
            ..Account::new(Name::parse("ann").expect("a name"), "p w", &[3; 16])
        };
        let auth = Auth {
            publish_token: Secret::new("show").ok(),
            users: vec![ann],
            ..Auth::default()
        };
        let token = Some((Scope::All, Scope::None));
        assert_eq!(ask(&auth, HERE, "token=show", Role::Publisher).await, token);
        assert_eq!(ask(&auth, HERE, "a=b&jwt=show", Role::Both).await, token);
        assert_eq!(ask(&auth, HERE, "token=show", Role::Subscriber).await, None);
        assert_eq!(ask(&auth, HERE, "token=wrong", Role::Publisher).await, None);
        assert_eq!(ask(&auth, HERE, "", Role::Publisher).await, None);
        let user = Scope::User("ann".to_owned());
        let both = Some((user.clone(), user.clone()));
        let query = "user=ann&password=p%20w";
        assert_eq!(ask(&auth, AWAY, query, Role::Publisher).await, both);
        assert_eq!(
            ask(&auth, AWAY, "user=ann&password=no", Role::Both).await,
            None
        );
        let users = Users::new(&auth);
        assert!(user.covers(&users, Access::Publish, "cam1"));
        assert!(!user.covers(&users, Access::Publish, "hall"));
        assert!(!user.covers(&users, Access::Read, "cam1"));
    }

    #[tokio::test]
    async fn a_wrong_token_is_refused_though_reading_is_open() {
        let auth = Auth {
            publish_token: Secret::new("show").ok(),
            ..Auth::default()
        };
        assert_eq!(ask(&auth, AWAY, "token=wrong", Role::Both).await, None);
        let open = Some((Scope::None, Scope::All));
        assert_eq!(ask(&auth, AWAY, "", Role::Both).await, open);
    }
}
