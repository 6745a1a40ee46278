//! Rights to read and publish over RTSP, from the [user store](glassline_access::auth).

use std::time::Instant;

use glassline_access::auth::{
    Action, Credential, Guest, Login, LoginError, Question, Requester, Users, query_token,
};
use glassline_rtsp::auth::User;
use glassline_rtsp::server::{Access, Answer, ClientCredentials, Refusal};

use super::pending_request::SlowCheck;

/// The result of checking a request's credentials, as far as it is known at once.
#[derive(Debug, PartialEq)]
pub(super) enum Decision {
    /// The answer is known.
    Now(Answer),
    /// The check takes far longer than a polling thread may be blocked. [`by_name`] then gives the
    /// answer.
    Later(SlowCheck),
}

/// Returns the login of a client, with the credentials that its request shows.
pub(super) fn login_of(
    by: Requester,
    query: Option<&str>,
    shown: Option<&ClientCredentials>,
) -> Login {
    let login = Login::new(by).with_token(query.and_then(query_token).as_deref());
    login.with_user(shown.map(|it| match it {
        ClientCredentials::Basic(user) => (&*user.name, &*user.password),
        // A response proves the password, and differs each time.
        ClientCredentials::Digest(response) => (response.user(), response.user()),
    }))
}

/// Ends a login with the answer to its request for `path`, which is to wait if the address has failed too
/// often, and is refused while an operator keeps the client away.
pub(super) fn concluded(users: &Users, login: Login, path: &str, answer: Answer) -> Answer {
    let answer = match answer {
        Answer::Authorized { user } if is_excluded(users, &login, user.as_deref(), path) => {
            Answer::Refused(Refusal::Forbidden)
        }
        answer => answer,
    };
    let is_granted = matches!(answer, Answer::Authorized { .. });
    match users.conclude(login, is_granted) {
        Err(limited) if !is_granted => Answer::Refused(refused(limited)),
        _ => answer,
    }
}

fn is_excluded(users: &Users, login: &Login, user: Option<&str>, path: &str) -> bool {
    let address = login.by().address();
    let until = users
        .exclusions()
        .until(Guest { address, user }, |it| it == path, Instant::now());
    until.is_some()
}

/// The right that a client wants: to read or to publish the stream at `path`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Right<'a> {
    pub(super) access: Access,
    pub(super) path: &'a str,
}

/// Checks the credentials of a client against users and tokens. A token is taken from the URL's
/// `?token=` or `?jwt=`, or as the password of any user of Basic.
pub(super) fn authorize(
    users: &Users,
    login: &mut Login,
    Right { access, path }: Right<'_>,
    query: Option<&str>,
    shown: Option<ClientCredentials>,
) -> Decision {
    let requester = *login.by();
    let by = &requester;
    let granted = |user: Option<&str>| {
        Decision::Now(Answer::Authorized {
            user: user.map(str::to_owned),
        })
    };
    if users.is_open(access, by) && is_open_stream(users, by, access, path) {
        return granted(None);
    }
    let accesses = opening(users, by, access);
    let question = |credential| Question {
        by: *by,
        action: Action::from(access),
        protocol: "rtsp",
        name: Some(path.to_owned()),
        is_folder: false,
        credential,
        query: query.map(str::to_owned),
        user_agent: None,
    };
    if let Some(token) = query.and_then(query_token) {
        if is_signed(users, accesses, &token) {
            return Decision::Later(SlowCheck::Token(token));
        }
        match users.verify_token(login, accesses, &token) {
            Ok(()) => return granted(None),
            // Other credentials of the request may be right.
            Err(LoginError::Wrong) => {}
            Err(error) => return Decision::Now(Answer::Refused(refused(error))),
        }
        // Some players show the token again and again, and a password once they are asked for it.
        if shown.is_none() && users.has_webhook() {
            return asked(question(Credential::Token(token)));
        }
    }
    let has_token = accesses.iter().any(|it| users.has_token(*it));
    match shown {
        None if users.has_webhook() && users.takes(&question(Credential::Nothing)) => {
            asked(question(Credential::Nothing))
        }
        // No credentials would be accepted.
        None if !users.has_logins() && !has_token => {
            Decision::Now(Answer::Refused(Refusal::Forbidden))
        }
        None => Decision::Now(Answer::Refused(Refusal::Unauthorized)),
        Some(ClientCredentials::Basic(user)) => by_basic(users, login, accesses, user, question),
        Some(ClientCredentials::Digest(response)) => {
            let verified = users.verify_digest(login, &response);
            let user = verified.map(|()| response.user().to_owned());
            Decision::Now(by_name(users, user, access, path))
        }
    }
}

/// Returns the decision on a name and a password, which may be a token. The webhook is asked about names
/// that no user here has.
fn by_basic(
    users: &Users,
    login: &mut Login,
    accesses: &[Access],
    user: User,
    question: impl Fn(Credential) -> Question,
) -> Decision {
    let granted = |user: User| {
        let user = Some(user.name);
        Decision::Now(Answer::Authorized { user })
    };
    if is_signed(users, accesses, &user.password) {
        return Decision::Later(SlowCheck::Token(user.password));
    }
    if !users.any() && !users.has_webhook() {
        // The password can be a token only.
        return match users.verify_token(login, accesses, &user.password) {
            Ok(()) => granted(user),
            Err(error) => Decision::Now(Answer::Refused(refused(error))),
        };
    }
    if users.is_token(login, accesses, &user.password) {
        return granted(user);
    }
    let User { name, password } = user;
    let is_known = users.checks_here(&name);
    let user = name;
    match is_known {
        true => Decision::Later(SlowCheck::Password { user, password }),
        false => asked(question(Credential::Password { user, password })),
    }
}

/// Returns whether `token` has to be verified by its signature.
fn is_signed(users: &Users, accesses: &[Access], token: &str) -> bool {
    let opens = |access: &Access| users.token_opens(*access, token);
    users.is_signed(token) && !accesses.iter().any(opens)
}

fn asked(question: Question) -> Decision {
    Decision::Later(SlowCheck::Question(Box::new(question)))
}

/// Returns whether an open server lets the client have `access` to this stream.
fn is_open_stream(users: &Users, by: &Requester, access: Access, path: &str) -> bool {
    let readable = || users.open_streams(by).is_some_and(|it| it.has(users, path));
    access != Access::Read || readable()
}

/// Returns the rights whose token gives `access`: the publish token also opens the voices of rooms
/// where reading is open, since its owner may join them.
fn opening(users: &Users, by: &Requester, access: Access) -> &'static [Access] {
    match access {
        Access::Publish | Access::Past => &[Access::Publish],
        Access::Read if users.is_open(Access::Read, by) => &[Access::Publish],
        Access::Read => &[Access::Read],
    }
}

/// Makes a check that takes time, and returns the name of the user.
pub(super) async fn verify(
    users: &Users,
    login: &mut Login,
    check: SlowCheck,
) -> Result<String, LoginError> {
    match check {
        SlowCheck::Password { user, password } => {
            let verified = users.verify(login, &user, &password).await;
            verified.map(|()| user)
        }
        SlowCheck::Token(token) => users.verify_bearer(login, &token).await,
        SlowCheck::Question(question) => users.ask(login, *question).await,
    }
}

/// Returns the answer to a login, which gave the user's name if it was right.
pub(super) fn by_name(
    users: &Users,
    login: Result<String, LoginError>,
    access: Access,
    path: &str,
) -> Answer {
    match login {
        Err(error) => Answer::Refused(refused(error)),
        Ok(user) if users.may(&user, access, path) => Answer::Authorized { user: Some(user) },
        Ok(_) => Answer::Refused(Refusal::Forbidden),
    }
}

fn refused(error: LoginError) -> Refusal {
    match error.retry_after() {
        Some(retry_after) => Refusal::Unavailable {
            retry_after: Some(retry_after),
        },
        None if error == LoginError::Refused => Refusal::Forbidden,
        None => Refusal::Unauthorized,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;

    use glassline_access::auth::{Excluded, Listener};
    use glassline_config::{Algorithm, Auth, Jwt, Secret};

    const HERE: [u8; 4] = [127, 0, 0, 1];
    const AWAY: [u8; 4] = [192, 0, 2, 1];

    fn ask(auth: &Auth, peer: [u8; 4], access: Access, query: Option<&str>) -> Decision {
        let by = from(peer);
        decide(&Users::new(auth), by, want(access), query, None)
    }

    const fn want(access: Access) -> Right<'static> {
        Right {
            access,
            path: "cam",
        }
    }

    fn from(peer: [u8; 4]) -> Requester {
        Requester::direct(peer.into(), Listener::Rtsp)
    }

    fn decide(
        users: &Users,
        by: Requester,
        wanted: Right<'_>,
        query: Option<&str>,
        shown: Option<ClientCredentials>,
    ) -> Decision {
        let mut login = login_of(by, query, shown.as_ref());
        match authorize(users, &mut login, wanted, query, shown) {
            Decision::Now(answer) => Decision::Now(concluded(users, login, wanted.path, answer)),
            later => later,
        }
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
            decide(&users, from(AWAY), want(access), None, basic)
        };
        let ann = Answer::Authorized {
            user: Some("ann".to_owned()),
        };
        assert_eq!(answer(Access::Publish), Decision::Now(ann));
        assert_eq!(answer(Access::Read), refused(Refusal::Unauthorized));
    }

    #[test]
    fn a_signed_token_is_verified_elsewhere_as_query_or_password() {
        let jwt = Jwt {
            algorithms: vec![Algorithm::ES256],
            ..Jwt::default()
        };
        let auth = Auth {
            read_token: Secret::new("look-1234567").ok(),
            jwt: Some(jwt),
            ..Auth::default()
        };
        let users = Users::new(&auth);
        let ask = |query: &str, password: Option<&str>| {
            let shown = password.map(|password| {
                ClientCredentials::Basic(User {
                    name: "any".to_owned(),
                    password: password.to_owned(),
                })
            });
            decide(&users, from(AWAY), want(Access::Read), Some(query), shown)
        };
        let token = || Decision::Later(SlowCheck::Token("eyJ.eyJ.c2ln".to_owned()));
        assert_eq!(ask("jwt=eyJ.eyJ.c2ln", None), token());
        assert_eq!(ask("", Some("eyJ.eyJ.c2ln")), token());
        assert_eq!(ask("token=look-1234567", None), open());
        assert_eq!(ask("", None), refused(Refusal::Unauthorized));
        let publish = decide(&users, from(HERE), want(Access::Publish), None, None);
        assert_eq!(publish, refused(Refusal::Unauthorized), "nothing is open");
    }

    #[test]
    fn a_client_behind_a_proxy_of_this_machine_is_not_local() {
        let users = Users::new(&Auth::default());
        let by = from(HERE).forwarded(true);
        let answer = decide(&users, by, want(Access::Publish), None, None);
        assert_eq!(answer, refused(Refusal::Forbidden));
    }

    #[test]
    fn voices_of_rooms_are_heard_with_the_publish_token() {
        let auth = Auth {
            publish_token: Secret::new("show-1234567").ok(),
            ..Auth::default()
        };
        let users = Users::new(&auth);
        let ask = |path, query| {
            decide(
                &users,
                from(HERE),
                Right {
                    access: Access::Read,
                    path,
                },
                query,
                None,
            )
        };
        let voice = "call~team~0123456789ab";
        assert_eq!(ask("cam", None), open());
        assert_eq!(ask(voice, None), refused(Refusal::Unauthorized));
        assert_eq!(ask(voice, Some("token=show-1234567")), open());
        let nobody = Users::new(&Auth::default());
        let away = decide(
            &nobody,
            from(AWAY),
            Right {
                access: Access::Read,
                path: voice,
            },
            None,
            None,
        );
        assert_eq!(away, refused(Refusal::Forbidden));
    }

    #[tokio::test]
    async fn a_credential_that_nothing_accepts_is_one_failure() {
        for case in crate::login_cases::all().await {
            for access in [Access::Read, Access::Publish] {
                for stream in crate::login_cases::STREAMS {
                    let wanted = Right {
                        access,
                        path: stream,
                    };
                    let ask = async |users: &Arc<Users>, credential: Credential| {
                        let (query, shown) = match credential {
                            Credential::Nothing => (None, None),
                            Credential::Token(token) => (Some(format!("token={token}")), None),
                            Credential::Password { user, password } => {
                                let user = User {
                                    name: user,
                                    password,
                                };
                                (None, Some(ClientCredentials::Basic(user)))
                            }
                        };
                        let (by, query) = (from(AWAY), query.as_deref());
                        let mut login = login_of(by, query, shown.as_ref());
                        let answer = match authorize(users, &mut login, wanted, query, shown) {
                            Decision::Now(answer) => answer,
                            Decision::Later(check) => {
                                let user = verify(users, &mut login, check).await;
                                by_name(users, user, access, stream)
                            }
                        };
                        match concluded(users, login, stream, answer) {
                            Answer::Authorized { .. } => 200,
                            Answer::Refused(Refusal::Unavailable { .. }) => 429,
                            _ => 401,
                        }
                    };
                    case.walk(Listener::Rtsp, &format!("{:?}", (access, stream)), ask)
                        .await;
                }
            }
        }
    }

    #[test]
    fn a_client_that_is_kept_away_is_refused_whatever_its_rights() {
        let users = Users::new(&Auth::default());
        let read = |peer| decide(&users, from(peer), want(Access::Read), None, None);
        let now = Instant::now();
        let (whom, until) = (
            Excluded::Address(AWAY.into()),
            now + Duration::from_secs(60),
        );
        let stream = Some("cam".to_owned());
        let made = users.exclusions().add(whom, stream, until, now);
        assert_eq!(read(AWAY), refused(Refusal::Forbidden));
        assert_eq!(read(HERE), open());
        users.exclusions().lift(made.expect("a place").number);
        assert_eq!(read(AWAY), open());
    }

    #[test]
    fn an_address_that_guesses_tokens_is_asked_to_wait() {
        let auth = Auth {
            read_token: Secret::new("look-1234567").ok(),
            ..Auth::default()
        };
        let users = Users::new(&auth);
        let ask = |peer, token: &str| {
            let query = format!("token={token}");
            decide(&users, from(peer), want(Access::Read), Some(&query), None)
        };
        for guess in 0..20 {
            let answer = ask(AWAY, &guess.to_string());
            assert_eq!(answer, refused(Refusal::Unauthorized));
        }
        let waits = |answer| {
            matches!(
                answer,
                Decision::Now(Answer::Refused(Refusal::Unavailable {
                    retry_after: Some(_)
                }))
            )
        };
        assert!(waits(ask(AWAY, "another")));
        assert!(waits(ask(AWAY, "look-1234567")));
        assert_eq!(ask(HERE, "look-1234567"), open());
    }
}
