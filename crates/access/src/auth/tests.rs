use super::*;
use digest::Algorithm;

const AWAY: Requester = from([192, 0, 2, 7]);
const HERE: Requester = from([127, 0, 0, 1]);

const fn from(octets: [u8; 4]) -> Requester {
    let [a, b, c, d] = octets;
    let address = std::net::Ipv4Addr::new(a, b, c, d);
    Requester::direct(std::net::IpAddr::V4(address), Listener::Http)
}

fn account(name: &str, password: &str, read: &[&str], publish: &[&str]) -> Account {
    let patterns = |texts: &[&str]| {
        let patterns = texts.iter().map(|text| Pattern::parse(text));
        patterns.collect::<Result<_, _>>().expect("good patterns")
    };
    Account {
        read: patterns(read),
        publish: patterns(publish),
        ..Account::new(Name::parse(name).expect("a good name"), password, &[9; 16])
    }
}

fn users(accounts: Vec<Account>, read: Option<&str>, publish: Option<&str>) -> Users {
    let token = |text: &str| Secret::new(text).expect("a good token");
    Users::new(&Auth {
        users: accounts,
        read_token: read.map(token),
        publish_token: publish.map(token),
        ..Auth::default()
    })
}

#[test]
fn a_server_that_knows_nobody_is_open_and_takes_sources_from_itself_only() {
    let users = users(Vec::new(), None, None);
    assert!(users.is_open(Access::Read, &AWAY));
    assert!(users.is_open(Access::Publish, &HERE));
    let mapped = "::ffff:127.0.0.1".parse().expect("an address");
    let mapped = Requester::direct(mapped, Listener::Http);
    assert!(users.is_open(Access::Publish, &mapped));
    assert!(!users.is_open(Access::Publish, &AWAY));
}

#[test]
fn users_and_tokens_close_what_they_are_for() {
    let tokens = users(Vec::new(), Some("r"), None);
    assert!(!tokens.is_open(Access::Read, &HERE));
    assert!(tokens.is_open(Access::Publish, &HERE), "as it was");
    assert!(tokens.token_opens(Access::Read, "r"));
    assert!(!tokens.token_opens(Access::Publish, "r"));
    let publishing = users(Vec::new(), None, Some("p"));
    assert!(publishing.is_open(Access::Read, &AWAY));
    assert!(!publishing.is_open(Access::Publish, &HERE));
    assert!(publishing.token_opens(Access::Publish, "p"));
    let named = users(vec![account("ann", "pw", &[], &[])], None, None);
    assert!(!named.is_open(Access::Read, &HERE) && !named.is_open(Access::Publish, &HERE));
}

#[test]
fn rights_are_lists_of_patterns() {
    let ann = account("ann", "pw", &["*"], &["cam/*", "hall"]);
    let users = users(vec![ann, account("bob", "pw", &["hall"], &[])], None, None);
    assert!(users.may("ann", Access::Read, "film.mkv"));
    assert!(users.may("ann", Access::Publish, "cam/7"));
    assert!(!users.may("ann", Access::Publish, "film.mkv"));
    assert!(users.may("bob", Access::Read, "hall"));
    assert!(!users.may("bob", Access::Read, "cam/7"));
    assert!(!users.may("bob", Access::Publish, "hall"));
    assert!(!users.may("eve", Access::Read, "hall"));
}

const WRONG: Result<(), LoginError> = Err(LoginError::Wrong);

#[tokio::test]
async fn a_password_is_hashed_once_and_then_remembered_for_its_address() {
    let users = users(vec![account("ann", "open sesame", &["*"], &[])], None, None);
    assert_eq!(users.log_in(&HERE, "ann", "open").await, WRONG);
    assert_eq!(users.log_in(&HERE, "ann", "open sesame").await, Ok(()));
    // The address has used up its failures, but a remembered pair still passes.
    while users.limit.begin(&HERE, Instant::now()).is_ok() {}
    assert_eq!(users.log_in(&HERE, "ann", "open sesame").await, Ok(()));
    let limited = users.log_in(&HERE, "ann", "other").await;
    assert!(
        matches!(limited, Err(LoginError::Limited { .. })),
        "{limited:?}"
    );
    // Another address may not try guesses against the pairs of this one.
    while users.limit.begin(&AWAY, Instant::now()).is_ok() {}
    let limited = users.log_in(&AWAY, "ann", "open sesame").await;
    assert!(
        matches!(limited, Err(LoginError::Limited { .. })),
        "{limited:?}"
    );
}

/// A wrong password and an unknown name are both refused by the fast hash, or both by argon2id.
#[tokio::test]
async fn an_unknown_name_is_hashed_like_a_known_one() {
    let mut ann = account("ann", "open sesame", &["*"], &[]);
    let fast = users(vec![ann.clone()], None, None);
    ann.digest_sha256 = None;
    let slow = users(vec![ann, account("bob", "pw", &["*"], &[])], None, None);
    assert!(fast.table().has_fast_hashes && !slow.table().has_fast_hashes);
    for users in [fast, slow] {
        for (name, password) in [("eve", "open sesame"), ("", ""), ("ann", "x")] {
            assert_eq!(users.log_in(&HERE, name, password).await, WRONG, "{name}");
        }
        assert_eq!(users.log_in(&HERE, "ann", "open sesame").await, Ok(()));
    }
}

#[tokio::test]
async fn the_slow_hash_decides_even_if_the_fast_one_matches() {
    let mut ann = account("ann", "open sesame", &["*"], &[]);
    ann.password = PasswordHash::of("another", &[1; 16]);
    let users = users(vec![ann], None, None);
    assert_eq!(users.log_in(&HERE, "ann", "open sesame").await, WRONG);
    assert_eq!(users.log_in(&HERE, "ann", "another").await, WRONG);
}

/// An office behind one address after a restart of the server.
#[tokio::test]
async fn users_behind_one_address_log_in_at_the_same_time() {
    let users = users(vec![account("ann", "open sesame", &["*"], &[])], None, None);
    let logins = (0..40).map(|_| users.log_in(&AWAY, "ann", "open sesame"));
    let answers = futures_util::future::join_all(logins).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    // An address that has failed too often learns nothing of a right guess.
    while users.limit.begin(&HERE, Instant::now()).is_ok() {}
    let limited = users.log_in(&HERE, "ann", "open sesame").await;
    assert!(
        matches!(limited, Err(LoginError::Limited { .. })),
        "{limited:?}"
    );
}

/// Each address may fail some times; were wrong passwords hashed, a thousand would take 20 s.
#[tokio::test]
async fn wrong_logins_from_everywhere_delay_no_right_one() {
    let users = users(vec![account("ann", "open sesame", &["*"], &[])], None, None);
    let hashed = {
        let begun = Instant::now();
        PasswordHash::of_nobody().is_of("x");
        begun.elapsed()
    };
    let begun = Instant::now();
    for guess in 0..1_000_u16 {
        let [high, low] = guess.to_be_bytes();
        let password = format!("guess {guess}");
        let by = from([198, 51, high, low]);
        assert_eq!(users.log_in(&by, "ann", &password).await, WRONG);
    }
    assert!(begun.elapsed() < hashed * 500, "{:?}", begun.elapsed());
    assert_eq!(users.log_in(&AWAY, "ann", "open sesame").await, Ok(()));
}

#[tokio::test]
async fn wrong_tokens_cost_their_address() {
    let users = users(Vec::new(), Some("look"), Some("show"));
    let ask = |by: &Requester, access, token: &str| users.log_in_by_token(by, &[access], token);
    assert_eq!(ask(&HERE, Access::Read, "look"), Ok(()));
    assert_eq!(ask(&AWAY, Access::Publish, "look"), WRONG);
    assert_eq!(ask(&AWAY, Access::Read, "look"), Ok(()), "right for this");
    let mut answers = (0..40).map(|guess| ask(&AWAY, Access::Publish, &guess.to_string()));
    let limited = answers.find(|it| *it != WRONG).expect("it ends");
    assert!(
        matches!(limited, Err(LoginError::Limited { .. })),
        "{limited:?}"
    );
    assert!(
        ask(&AWAY, Access::Publish, "show").is_err(),
        "no more guesses"
    );
    assert_eq!(ask(&AWAY, Access::Read, "look"), Ok(()), "shown before");
    assert_eq!(ask(&HERE, Access::Publish, "show"), Ok(()), "others may");
}

#[test]
fn voices_of_rooms_are_private_unless_a_right_was_given() {
    let voice = "call~team~0123456789ab";
    let reads = |users: &Users, by: &Requester, stream: &str| {
        users
            .open_streams(by)
            .is_some_and(|it| it.has(users, stream))
    };
    let nobody = users(Vec::new(), None, None);
    assert!(reads(&nobody, &HERE, voice) && !reads(&nobody, &AWAY, voice));
    assert!(!reads(&nobody, &HERE.forwarded(true), voice));
    assert!(reads(&nobody, &AWAY, "cam"));
    let publishing = users(Vec::new(), None, Some("p"));
    for by in [HERE, AWAY] {
        assert!(!reads(&publishing, &by, voice) && reads(&publishing, &by, "cam"));
    }
    let reading = users(Vec::new(), Some("r"), None);
    assert!(!reads(&reading, &HERE, voice) && !reads(&reading, &HERE, "cam"));
    let ann = users(
        vec![account("ann", "pw", &["call~team~*"], &[])],
        None,
        None,
    );
    assert!(Readable::OfUser("ann".to_owned()).has(&ann, voice));
}

#[test]
fn replaced_users_are_another_generation() {
    let users = users(vec![account("ann", "pw", &["*"], &[])], None, None);
    let before = users.generation();
    let bob = account("bob", "pw", &["*"], &[]);
    assert!(users.replace(std::slice::from_ref(&bob)) && users.generation() != before);
    let now = users.generation();
    assert!(
        !users.replace(&[bob]) && users.generation() == now,
        "the same users"
    );
    assert!(users.has("bob") && !users.has("ann"));
}

#[test]
fn digest_secrets_are_those_of_rfc_7616() {
    let users = users(
        vec![account("Mufasa", "Circle of Life", &[], &[])],
        None,
        None,
    );
    // echo -n 'Mufasa:glassline:Circle of Life' | md5sum, sha256sum
    let md5 = users.digest_secret("Mufasa", Algorithm::Md5);
    assert_eq!(md5, "30ce423ed00d625bee1bc74d5473a08a");
    let sha256 = users.digest_secret("Mufasa", Algorithm::Sha256);
    assert_eq!(
        sha256,
        "0f1e698d411da6ceb65f4d0f23db45b4efc4e11cef121942b807ae806ed56e46"
    );
    let nobody = users.digest_secret("Scar", Algorithm::Sha256);
    assert_eq!(nobody.len(), sha256.len());
    assert_ne!(nobody, sha256);
}

#[test]
fn an_account_reads_back_from_its_yaml_and_never_shows() {
    let ann = account("o'neil", "pw", &["cam/*", "it's"], &["*"]);
    let yaml: String = ann
        .to_yaml()
        .lines()
        .map(|line| format!("  {line}\n"))
        .collect();
    let auth: Auth = serde_saphyr::from_str(&format!("users:\n{yaml}")).expect("our own YAML");
    assert_eq!(auth.users.first(), Some(&ann));
    let digests = [Algorithm::Md5, Algorithm::Sha256].map(|it| ann.digest_secret(it));
    let json = serde_json::to_string(&auth).expect("JSON");
    for shown in [json, format!("{auth:?}")] {
        assert!(!shown.contains("$argon2id"), "{shown}");
        let secrets = digests.iter().flatten();
        assert!(secrets.clone().count() == 2 && secrets.clone().all(|it| !shown.contains(*it)));
        assert!(shown.contains("cam/*"), "{shown}");
    }
}

#[test]
fn the_right_to_read_grants_no_past_and_operators_have_it() {
    let recorded = [Action::Playback, Action::Record, Action::Export];
    let viewer = account("viewer", "pw", &["**"], &["**"]);
    let guard = account("guard", "pw", &[], &[]).with_rights(StreamRights {
        playback: vec![Pattern::parse("cam*").expect("a pattern")],
        ..StreamRights::default()
    });
    let boss = Account {
        role: Some(Role::Operator),
        ..account("boss", "pw", &[], &[])
    };
    assert!(guard.is_of_streams());
    assert!(guard.to_yaml().contains("\n  playback: ['cam*']\n"));
    let users = users(vec![viewer, guard, boss], None, None);
    for action in recorded {
        assert!(!users.may_do("viewer", action, "cam1"), "{action:?}");
        assert!(users.may_do("boss", action, "cam1"), "{action:?}");
        assert_eq!(
            users.may_do("guard", action, "cam1"),
            action == Action::Playback
        );
        assert!(!users.may_do("nobody", action, "cam1"), "{action:?}");
    }
    assert!(!users.may_do("guard", Action::Playback, "hall"));
    assert!(!users.may_do("boss", Action::Read, "cam1"));
    assert!(!users.may("guard", Access::Read, "cam1"));
}
