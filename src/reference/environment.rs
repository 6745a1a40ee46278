//! Variables of the environment: each key of the configuration has one, as the page says.

use clap::{Arg, Command, CommandFactory as _};
use glassline_config::{Config, Error, Tls, VARIABLES_OF_BUILDS, VARIABLES_OF_COMMANDS};

fn config(yaml: &str, variables: &[(&str, &str)]) -> Result<Config, Error> {
    let variables = variables.iter();
    let variables = variables.map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
    Config::from_yaml_and_variables(yaml, "g.yml", variables)
}

fn reason(yaml: &str, variables: &[(&str, &str)]) -> String {
    match config(yaml, variables) {
        Ok(_) => panic!("{variables:?} is taken"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn variables_override_the_file_and_leave_all_else() {
    let yaml = "http: {address: '10.0.0.1:1', connections: 7}\nsources: {a: demo}\n";
    let found = config(
        yaml,
        &[
            ("GLASSLINE_HTTP_ADDRESS", "0.0.0.0:80"),
            ("GLASSLINE_HTTP_HOSTS", "a.example,b.example"),
            ("GLASSLINE_HTTP_TRUSTED_PROXIES", "[10.0.0.0/8, '::1']"),
            ("GLASSLINE_RTSP_ADDRESS", "null"),
            ("GLASSLINE_RTSP_TLS_ADDRESS", "0.0.0.0:8322"),
            ("GLASSLINE_AUTH_READ_TOKEN", "007"),
            ("GLASSLINE_LIMITS_VIEWERS", "5"),
            ("GLASSLINE_MEDIA_TCP", "false"),
            ("GLASSLINE_SHARDS", "3"),
        ],
    );
    let expected = "http: {address: '0.0.0.0:80', connections: 7, hosts: [a.example, b.example], \
                    trusted_proxies: ['10.0.0.0/8', '::1']}\nsources: {a: demo}\n\
                    rtsp: {address: null, tls: {address: '0.0.0.0:8322'}}\n\
                    auth: {read_token: '007'}\nlimits: {viewers: 5}\nmedia: {tcp: false}\n\
                    shards: 3\n";
    let expected = Config::from_yaml(expected, "t.yml").expect("a good file");
    assert_eq!(found.expect("good variables"), expected);
}

#[test]
fn variables_alone_are_a_configuration() {
    for yaml in ["", "# nothing\n", "cluster:\n", "cluster: {linger_s: 3}\n"] {
        let found = config(
            yaml,
            &[
                ("GLASSLINE_CLUSTER_NAME", "edge-1"),
                (
                    "GLASSLINE_CLUSTER_SECRET",
                    "take-32-random-characters-or-more",
                ),
                ("GLASSLINE_SOURCES", "{yard: 'rtsp://192.0.2.1/a: b'}"),
                ("GLASSLINE_TLS", "lan"),
            ],
        );
        let found = found.expect("good variables");
        let cluster = found.cluster.expect("a cluster");
        assert_eq!(cluster.name.to_string(), "edge-1");
        assert_eq!(found.sources.len(), 1);
        assert!(matches!(found.tls, Some(Tls::Lan(_))));
    }
}

#[test]
fn an_error_names_the_variable_or_the_place_in_the_file() {
    let wrong = reason("", &[("GLASSLINE_HTTP_ADDRESS", "nowhere")]);
    assert!(
        wrong.starts_with("GLASSLINE_HTTP_ADDRESS: this is no address"),
        "{wrong}"
    );
    let wrong = reason(
        "http:\n  adress: a\n",
        &[("GLASSLINE_HTTP_HOSTS", "a.example")],
    );
    assert_eq!(
        wrong,
        "g.yml:2:3: unknown key 'adress': did you mean 'address'?"
    );
    let wrong = reason("", &[("GLASSLINE_AUTH_READ_TOKEN", "sword fish")]);
    assert!(wrong.starts_with("GLASSLINE_AUTH_READ_TOKEN: "), "{wrong}");
    assert!(!wrong.contains("fish"), "{wrong}");
    let both = [("GLASSLINE_CLUSTER", "{}"), ("GLASSLINE_CLUSTER_NAME", "a")];
    let wrong = reason("", &both);
    assert!(wrong.contains("keep one"), "{wrong}");
}

#[test]
fn a_file_has_the_value_without_its_newline() {
    let path = std::env::temp_dir().join(format!("glassline-token-{}", std::process::id()));
    std::fs::write(&path, "swordfish\n").expect("written");
    let shown = path.display().to_string();
    let found = config("", &[("GLASSLINE_AUTH_READ_TOKEN_FILE", &shown)]);
    let token = found
        .expect("a good file")
        .auth
        .read_token
        .expect("a token");
    assert!(token.matches("swordfish"));
    let twice = [
        ("GLASSLINE_AUTH_READ_TOKEN", "a"),
        ("GLASSLINE_AUTH_READ_TOKEN_FILE", shown.as_str()),
    ];
    assert!(reason("", &twice).contains("keep one"));
    std::fs::remove_file(&path).expect("it is there");
    let gone = reason("", &[("GLASSLINE_AUTH_READ_TOKEN_FILE", &shown)]);
    assert!(
        gone.starts_with("GLASSLINE_AUTH_READ_TOKEN_FILE: "),
        "{gone}"
    );
}

/// YAML would read a null, references, a tag, a list, a map, a quotation and a comment in them.
#[test]
fn a_secret_is_taken_letter_by_letter() {
    for text in [
        "~", "*sword", "&sword", "!sword", "[sword", "{sword", "\"sword", "#sword", "0123", "yes",
        "1e3",
    ] {
        let found = config("", &[("GLASSLINE_AUTH_READ_TOKEN", text)]);
        let found = found.unwrap_or_else(|error| panic!("{text}: {error}"));
        let token = found.auth.read_token.expect("a token");
        assert!(token.matches(text), "{text}");
    }
    let cut = reason("", &[("GLASSLINE_AUTH_READ_TOKEN", "sword #fish")]);
    assert!(cut.starts_with("GLASSLINE_AUTH_READ_TOKEN: "), "{cut}");
    let none = config("", &[("GLASSLINE_AUTH_READ_TOKEN", "null")]);
    assert_eq!(none.expect("a good variable").auth.read_token, None);
}

#[test]
fn an_empty_variable_of_a_secret_opens_nothing() {
    for text in ["", "''"] {
        let wrong = reason("", &[("GLASSLINE_AUTH_READ_TOKEN", text)]);
        assert!(
            wrong.starts_with("GLASSLINE_AUTH_READ_TOKEN: the token is empty"),
            "{wrong}"
        );
    }
}

/// The page of the configuration promises a variable for each key.
#[test]
fn every_key_takes_its_default_from_its_variable() {
    let default: serde_json::Value =
        serde_json::from_str(&Config::default().to_json()).expect("JSON");
    let mut tried = Vec::new();
    try_keys("GLASSLINE", &default, &mut tried);
    assert!(tried.len() > 60, "{tried:?}");
    let all: std::collections::BTreeSet<&String> = tried.iter().collect();
    assert_eq!(all.len(), tried.len(), "two keys have one variable");
}

fn try_keys(above: &str, object: &serde_json::Value, tried: &mut Vec<String>) {
    for (key, value) in object.as_object().into_iter().flatten() {
        let variable = format!("{above}_{}", key.to_uppercase());
        try_keys(&variable, value, tried);
        let text = match value {
            // As the page says.
            serde_json::Value::String(text) if text.is_empty() => "''".to_owned(),
            serde_json::Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let found = config("", &[(&variable, &text)]);
        let found = found.unwrap_or_else(|error| panic!("{variable}={text}: {error}"));
        assert_eq!(found, Config::default(), "{variable}={text}");
        // Any text is a path; all else refuses this one.
        let other = config("", &[(&variable, "{no: [such, value]}")]);
        assert_ne!(
            other.ok(),
            Some(Config::default()),
            "nobody reads {variable}"
        );
        tried.push(variable);
    }
}

/// Returns the variables that the flags of `command` and of those below it read.
fn of_flags(command: &Command) -> Vec<String> {
    let flags = command.get_arguments().filter_map(Arg::get_env);
    let flags = flags.map(|it| it.to_string_lossy().into_owned());
    let below = command.get_subcommands().flat_map(of_flags);
    flags.chain(below).collect()
}

#[test]
fn a_variable_of_a_flag_is_not_taken_for_a_misspelt_key() {
    let mut flags = of_flags(&crate::CommandLine::command());
    flags.retain(|it| it.starts_with("GLASSLINE_"));
    flags.sort_unstable();
    flags.dedup();
    assert!(
        flags.contains(&"GLASSLINE_ADMIN_TOKEN".to_owned()),
        "{flags:?}"
    );
    for flag in &flags {
        assert!(VARIABLES_OF_COMMANDS.contains(&flag.as_str()), "{flag}");
    }
}

#[test]
fn a_variable_of_the_build_is_not_taken_for_a_misspelt_key() {
    let readers = [
        include_str!("../../build.rs"),
        include_str!("../../packaging/Dockerfile"),
        include_str!("../../xtask/src/package/mod.rs"),
    ];
    let is_of_name = |letter: char| letter.is_ascii_uppercase() || letter == '_';
    for text in readers {
        let mut named = text.split(|it| !is_of_name(it));
        let build = named.find(|it| VARIABLES_OF_BUILDS.contains(it));
        assert!(build.is_some(), "no variable of a build is read here");
        for name in text.split(|it| !is_of_name(it)) {
            let is_ours = name.starts_with("GLASSLINE_") && name.len() > "GLASSLINE_".len();
            assert!(!is_ours || VARIABLES_OF_BUILDS.contains(&name), "{name}");
        }
    }
}
