//! Rights to publish and read over QUIC, from the [user store](glassline_access::auth).
//!
//! MoQ has no headers, so credentials are in the query of the URL that a session is opened with.
//! The query is encrypted by TLS and never logged. `token` or `jwt` is a token; `user` and
//! `password` are a user's.

use std::net::SocketAddr;

use glassline_access::auth::{
    Access, Action, Credential, Login, LoginError, PageHeaders, PageRefusal, Question, Readable,
    Requester, Sites, Users,
};
use glassline_quic::moq::{Page, Role};
use tokio::sync::watch;

use super::shown::Shown;

/// The streams that a session may publish and read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rights {
    pub(super) publish: Scope,
    /// The streams that the session may read; `None` for no stream.
    pub(super) read: Option<Readable>,
}

/// The streams that a right to publish is for.
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

impl Rights {
    /// Returns the user, or holder of a signed token, whose rights these are; `None` if a token gives
    /// them, or if the server is open.
    fn user(&self) -> Option<&str> {
        match (&self.publish, &self.read) {
            (Scope::User(name), _) | (_, Some(Readable::OfUser(name))) => Some(name),
            _ => None,
        }
    }

    /// Returns whether the session may read the stream called `name`. Voices of rooms count as no stream.
    pub(super) fn may_read(&self, users: &Users, name: &str) -> bool {
        match &self.read {
            None => false,
            Some(Readable::All | Readable::AllButRooms) => true,
            Some(Readable::OfUser(user)) => users.may(user, Access::Read, name),
        }
    }

    /// Waits until the user whose rights these are is removed, may read other streams than `only`,
    /// which its session was granted, or may no longer publish one of the streams that `published`
    /// returns. Waits forever if they are no user's rights.
    pub(super) async fn lost(
        &self,
        only: Option<&[String]>,
        published: impl Fn() -> Vec<String>,
        users: &Users,
        replaced: &mut watch::Receiver<()>,
    ) {
        let Some(user) = self.user() else {
            return std::future::pending().await;
        };
        let has_lost = || {
            let may_publish = |stream: &String| self.publish.covers(users, Access::Publish, stream);
            let reads_others = only.is_some_and(|only| users.readable(user) != only);
            !users.has(user) || reads_others || !published().iter().all(may_publish)
        };
        while !has_lost() {
            if replaced.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }
}

/// The reason why a session has no right to what it is opened for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Denied {
    #[error("no right to what it asks for, or wrong credentials")]
    NoRight,
    #[error("an operator keeps this client away")]
    Excluded,
    #[error(transparent)]
    Page(#[from] PageRefusal),
    #[error(transparent)]
    Login(#[from] LoginError),
}

/// A client's request for a session, as far as rights depend on it.
#[derive(Clone, Copy, Debug)]
pub(super) struct RightsRequest<'a> {
    pub(super) by: Requester,
    /// Address of the server that the client reached.
    pub(super) local: SocketAddr,
    pub(super) page: Option<&'a Page>,
    /// Path of the URL: the stream, or the folder that its streams are in.
    pub(super) path: &'a str,
    pub(super) query: &'a str,
    pub(super) role: Role,
}

impl RightsRequest<'_> {
    fn page(&self) -> PageHeaders<'_> {
        PageHeaders {
            origin: self.page.and_then(|page| page.origin.as_deref()),
            host: self.page.map(|page| page.host.as_str()),
            is_same_origin: false,
            local: self.local,
        }
    }

    fn question(&self, action: Action, shown: &Shown) -> Question {
        let credential = match (&shown.token, &shown.user) {
            (Some(token), _) => Credential::Token(token.clone()),
            (None, Some((user, password))) => Credential::Password {
                user: user.clone(),
                password: password.clone(),
            },
            (None, None) => Credential::Nothing,
        };
        Question {
            by: self.by,
            action,
            protocol: "moq",
            name: (!self.path.is_empty()).then(|| self.path.to_owned()),
            is_folder: true,
            credential,
            query: (!self.query.is_empty()).then(|| self.query.to_owned()),
            user_agent: None,
        }
    }

    /// Returns the actions that the session is opened for.
    const fn actions(&self) -> &'static [Action] {
        match self.role {
            Role::Publisher => &[Action::Publish],
            Role::Subscriber => &[Action::Read],
            Role::Both => &[Action::Read, Action::Publish],
        }
    }
}

/// Returns the rights of a session.
///
/// # Errors
/// Returns [`Denied`] if the session has no right to what it is opened for.
pub(super) async fn rights(
    users: &Users,
    sites: &Sites,
    asked: &RightsRequest<'_>,
) -> Result<Rights, Denied> {
    let shown = Shown::of(asked.query);
    let user = shown.user.as_ref();
    let mut login = Login::new(asked.by)
        .with_token(shown.token.as_deref())
        .with_user(user.map(|(name, password)| (&**name, &**password)));
    let rights = rights_of(users, sites, &mut login, asked, &shown).await;
    let rights = match rights {
        Ok(rights) if asked.is_excluded(users, rights.user()) => Err(Denied::Excluded),
        rights => rights,
    };
    let concluded = users.conclude(login, rights.is_ok());
    match (rights, concluded) {
        (Err(_), Err(limited)) => Err(Denied::Login(limited)),
        (rights, _) => rights,
    }
}

async fn rights_of(
    users: &Users,
    sites: &Sites,
    login: &mut Login,
    asked: &RightsRequest<'_>,
    shown: &Shown,
) -> Result<Rights, Denied> {
    let by = &asked.by;
    let page = asked.page();
    let is_guarded =
        users.has_logins() || users.has_token(Access::Read) || users.has_token(Access::Publish);
    let accesses = [Access::Publish, Access::Read];
    let opens = |access| {
        let token = shown.token.as_deref();
        token.is_some_and(|it| users.token_opens(access, it))
    };
    let mut user = None;
    let mut is_asked = users.has_webhook();
    // A client with wrong credentials is refused even if the server is open to everybody, so that
    // it learns of the mistake.
    if let Some(token) = shown.token.as_deref().filter(|_| is_guarded) {
        if users.is_signed(token) && !accesses.into_iter().any(opens) {
            user = Some(users.verify_bearer(login, token).await?);
            is_asked = false;
        } else {
            match users.verify_token(login, &accesses, token) {
                Ok(()) => is_asked = false,
                // The webhook may know it.
                Err(LoginError::Wrong) if is_asked => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    let known = shown.user.as_ref();
    if let Some((name, password)) = known.filter(|(name, _)| users.checks_here(name)) {
        users.verify(login, name, password).await?;
        user = Some(name.clone());
        is_asked = false;
    }
    if is_asked {
        user = ask(users, login, asked, shown).await?;
    }
    let open = users
        .open_streams(by)
        .filter(|_| sites.check_reader(&page).is_ok());
    // The owner of the publish token may join rooms, so the voices are not private for it.
    let opens_all =
        opens(Access::Read) || opens(Access::Publish) && users.is_open(Access::Read, by);
    let read = match opens_all {
        true => Some(Readable::All),
        false => open.or_else(|| user.clone().map(Readable::OfUser)),
    };
    let is_own = || sites.check_own(&page).is_ok();
    let publish = if opens(Access::Publish) || users.is_open(Access::Publish, by) && is_own() {
        Scope::All
    } else {
        user.map_or(Scope::None, Scope::User)
    };
    let enough = match asked.role {
        Role::Publisher => publish.is_some(),
        Role::Subscriber => read.is_some(),
        Role::Both => publish.is_some() || read.is_some(),
    };
    if !enough {
        // A page of another site learns which key to set.
        sites.check_own(&page)?;
        return Err(Denied::NoRight);
    }
    Ok(Rights { publish, read })
}

/// Asks the webhook for all that the session is opened for, and returns the name of the holder of what
/// it gives: `None` if it is not asked, or gives nothing to a session that names no stream.
async fn ask(
    users: &Users,
    login: &mut Login,
    asked: &RightsRequest<'_>,
    shown: &Shown,
) -> Result<Option<String>, LoginError> {
    let (mut holder, mut refused) = (None::<String>, None);
    for action in asked.actions() {
        let question = asked.question(*action, shown);
        if !users.takes(&question) {
            continue;
        }
        match users.ask(login, question).await {
            Ok(name) => {
                holder = Some(match holder {
                    Some(before) => users.both(&before, &name),
                    None => name,
                });
            }
            Err(error) => refused = Some(error),
        }
    }
    match (holder, refused) {
        (None, Some(error)) => Err(error),
        (holder, _) => Ok(holder.filter(|name| users.has_rights(name))),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    use glassline_access::auth::{Account, Listener, Name, Origin, Pattern};
    use glassline_config::{Auth, Secret};

    const HERE: [u8; 4] = [127, 0, 0, 1];
    const AWAY: [u8; 4] = [192, 0, 2, 1];

    fn asked<'a>(peer: [u8; 4], query: &'a str, role: Role) -> RightsRequest<'a> {
        let local = if peer == HERE { HERE } else { [192, 0, 2, 200] };
        RightsRequest {
            by: Requester::direct(peer.into(), Listener::Quic),
            local: (local, 4443).into(),
            page: None,
            path: "cam",
            query,
            role,
        }
    }

    async fn ask(
        auth: &Auth,
        peer: [u8; 4],
        query: &str,
        role: Role,
    ) -> Option<(Scope, Option<Readable>)> {
        let asked = asked(peer, query, role);
        let rights = rights(&Users::new(auth), &Sites::default(), &asked).await;
        rights.ok().map(|rights| (rights.publish, rights.read))
    }

    #[tokio::test]
    async fn without_users_and_tokens_everybody_reads_and_this_machine_publishes() {
        let auth = Auth::default();
        let here = Some((Scope::All, Some(Readable::All)));
        assert_eq!(ask(&auth, HERE, "", Role::Both).await, here);
        assert_eq!(ask(&auth, HERE, "token=any", Role::Publisher).await, here);
        // Only this machine hears rooms.
        let away = Some((Scope::None, Some(Readable::AllButRooms)));
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
        let token = Some((Scope::All, None));
        assert_eq!(ask(&auth, HERE, "token=show", Role::Publisher).await, token);
        assert_eq!(ask(&auth, HERE, "a=b&jwt=show", Role::Both).await, token);
        assert_eq!(ask(&auth, HERE, "token=show", Role::Subscriber).await, None);
        assert_eq!(ask(&auth, HERE, "token=wrong", Role::Publisher).await, None);
        assert_eq!(ask(&auth, HERE, "", Role::Publisher).await, None);
        let user = Scope::User("ann".to_owned());
        let both = Some((user.clone(), Some(Readable::OfUser("ann".to_owned()))));
        let query = "user=ann&password=p%20w";
        assert_eq!(ask(&auth, AWAY, query, Role::Publisher).await, both);
        assert_eq!(
            ask(&auth, AWAY, "user=ann&password=no", Role::Both).await,
            None
        );
        let users = Users::new(&auth);
        assert!(user.covers(&users, Access::Publish, "cam1"));
        assert!(!user.covers(&users, Access::Publish, "hall"));
    }

    #[tokio::test]
    async fn a_wrong_token_is_refused_though_reading_is_open() {
        let auth = Auth {
            publish_token: Secret::new("show").ok(),
            ..Auth::default()
        };
        assert_eq!(ask(&auth, AWAY, "token=wrong", Role::Both).await, None);
        let open = Some((Scope::None, Some(Readable::AllButRooms)));
        assert_eq!(ask(&auth, AWAY, "", Role::Both).await, open);
        let token = Some((Scope::All, Some(Readable::All)));
        assert_eq!(ask(&auth, AWAY, "token=show", Role::Both).await, token);
    }

    #[tokio::test]
    async fn pages_of_other_sites_neither_read_nor_publish_by_webtransport() {
        let users = Users::new(&Auth::default());
        let page = |origin: &str, host: &str| Page {
            origin: Some(origin.to_owned()),
            host: host.to_owned(),
        };
        let own = page("http://127.0.0.1:8889", "127.0.0.1:4443");
        let foreign = page("http://evil.example", "127.0.0.1:4443");
        let rebound = page("http://evil.example:4443", "evil.example:4443");
        for (page, listed, expected) in [
            (&foreign, false, false),
            (&rebound, false, false),
            (&own, false, false),
            (&own, true, true),
            (&foreign, true, false),
        ] {
            let origins = listed.then(|| Origin::try_from("http://127.0.0.1:8889".to_owned()));
            let origins = origins.into_iter().collect::<Result<Vec<_>, _>>();
            let sites = Sites::new(&origins.expect("a good origin"), &[]);
            let asked = RightsRequest {
                page: Some(page),
                ..asked(HERE, "", Role::Both)
            };
            let rights = rights(&users, &sites, &asked).await;
            assert_eq!(rights.is_ok(), expected, "{page:?}");
            if let Ok(rights) = rights {
                assert_eq!(rights.publish, Scope::None, "only own pages publish");
            }
        }
        // With a token, the page's site does not matter.
        let auth = Auth {
            publish_token: Secret::new("show").ok(),
            ..Auth::default()
        };
        let asked = RightsRequest {
            page: Some(&foreign),
            ..asked(AWAY, "token=show", Role::Both)
        };
        let rights = rights(&Users::new(&auth), &Sites::default(), &asked).await;
        assert!(rights.is_ok());
    }

    #[tokio::test]
    async fn a_credential_that_nothing_accepts_is_one_failure() {
        for case in crate::login_cases::all().await {
            for stream in crate::login_cases::STREAMS {
                for role in [Role::Publisher, Role::Subscriber, Role::Both] {
                    let ask = async |users: &Arc<Users>, credential: Credential| {
                        let query = match credential {
                            Credential::Nothing => String::new(),
                            Credential::Token(token) => format!("token={token}"),
                            Credential::Password { user, password } => {
                                format!("user={user}&password={password}")
                            }
                        };
                        let mut request = asked(AWAY, &query, role);
                        request.path = stream;
                        match rights(users, &Sites::default(), &request).await {
                            Ok(_) => 200,
                            Err(Denied::Login(LoginError::Limited { .. })) => 429,
                            Err(_) => 401,
                        }
                    };
                    case.walk(Listener::Quic, &format!("{role:?} {stream}"), ask)
                        .await;
                }
            }
        }
    }

    #[tokio::test]
    async fn a_session_of_a_user_whose_rights_change_is_over() {
        let account = |name: &str, read: &str| Account {
            read: vec![Pattern::parse(read).expect("a pattern")],
            ..Account::new(Name::parse(name).expect("a name"), "pw", &[3; 16])
        };
        let publisher = |publish: &str| Account {
            publish: vec![Pattern::parse(publish).expect("a pattern")],
            ..account("ann", "cam*")
        };
        for (after, ends) in [
            (vec![account("bob", "*")], true),
            (vec![account("ann", "hall")], true),
            (vec![account("ann", "cam*")], true),
            (vec![publisher("hall")], true),
            (vec![publisher("cam1"), account("bob", "*")], false),
        ] {
            let users = Users::new(&Auth {
                users: vec![publisher("cam*")],
                ..Auth::default()
            });
            let request = asked(AWAY, "user=ann&password=pw", Role::Subscriber);
            let rights = rights(&users, &Sites::default(), &request).await;
            let rights = rights.expect("she may read");
            let (only, mut replaced) = (users.readable("ann"), users.watch());
            let wait = async |replaced: &mut watch::Receiver<()>| {
                let published = || vec!["cam1".to_owned()];
                let lost = rights.lost(Some(&only), published, &users, replaced);
                let wait = std::time::Duration::from_millis(50);
                tokio::time::timeout(wait, lost).await.is_ok()
            };
            assert!(!wait(&mut replaced).await);
            assert!(users.replace(&after));
            assert_eq!(wait(&mut replaced).await, ends, "{after:?}");
        }
    }
}
