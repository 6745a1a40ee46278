use super::*;
use crate::config::Config;
use digest::Algorithm;

const AWAY: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 7));
const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

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
    assert!(users.is_open(Access::Read, AWAY));
    assert!(users.is_open(Access::Publish, HERE));
    let mapped = "::ffff:127.0.0.1".parse().expect("an address");
    assert!(users.is_open(Access::Publish, mapped));
    assert!(!users.is_open(Access::Publish, AWAY));
}

#[test]
fn users_and_tokens_close_what_they_are_for() {
    let tokens = users(Vec::new(), Some("r"), None);
    assert!(!tokens.is_open(Access::Read, HERE));
    assert!(tokens.is_open(Access::Publish, HERE), "as it was");
    assert!(tokens.token_opens(Access::Read, "r"));
    assert!(!tokens.token_opens(Access::Publish, "r"));
    let publishing = users(Vec::new(), None, Some("p"));
    assert!(publishing.is_open(Access::Read, AWAY));
    assert!(!publishing.is_open(Access::Publish, HERE));
    assert!(publishing.token_opens(Access::Publish, "p"));
    let named = users(vec![account("ann", "pw", &[], &[])], None, None);
    assert!(!named.is_open(Access::Read, HERE) && !named.is_open(Access::Publish, HERE));
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

#[tokio::test]
async fn a_password_is_hashed_once_and_then_remembered() {
    let users = users(vec![account("ann", "open sesame", &["*"], &[])], None, None);
    assert!(!users.verify("ann", "open").await);
    assert!(users.verify("ann", "open sesame").await);
    // No permit to hash is left, but a remembered pair still passes.
    users.hashing.forget_permits(HASHING_MAX);
    assert!(users.verify("ann", "open sesame").await);
    let wait = std::time::Duration::from_millis(50);
    let unknown = tokio::time::timeout(wait, users.verify("ann", "other")).await;
    assert!(unknown.is_err(), "another one waits to be hashed");
}

#[tokio::test]
async fn an_unknown_name_is_hashed_like_a_known_one() {
    let users = users(vec![account("ann", "open sesame", &["*"], &[])], None, None);
    let nobody = users.nobody.clone();
    assert!(!users.verify("eve", "open sesame").await);
    assert!(!users.verify("", "").await);
    assert!(nobody.reveal().starts_with("$argon2id$"));
    // Without permits, a wrong password waits just like an unknown name.
    users.hashing.forget_permits(HASHING_MAX);
    let wait = std::time::Duration::from_millis(50);
    let hashed = tokio::time::timeout(wait, users.verify("eve", "x")).await;
    assert!(hashed.is_err(), "no answer without hashing");
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
        .map(|line| format!("    {line}\n"))
        .collect();
    let config = Config::from_yaml(&format!("auth:\n  users:\n{yaml}"), "t.yml");
    let config = config.expect("our own YAML");
    assert_eq!(config.auth.users.first(), Some(&ann));
    let digests = [Algorithm::Md5, Algorithm::Sha256].map(|it| ann.digest_secret(it));
    for shown in [config.to_yaml(), config.to_json(), format!("{config:?}")] {
        assert!(!shown.contains("$argon2id"), "{shown}");
        let secrets = digests.iter().flatten();
        assert!(secrets.clone().count() == 2 && secrets.clone().all(|it| !shown.contains(*it)));
        assert!(shown.contains("cam/*"), "{shown}");
    }
}
