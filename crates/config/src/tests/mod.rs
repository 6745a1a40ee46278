mod hooks;
mod telemetry;

use super::*;

fn error(yaml: &str) -> String {
    Config::from_yaml(yaml, "test.yml")
        .expect_err(yaml)
        .to_string()
}

#[test]
fn nothing_said_means_loopback_and_no_tokens() {
    for empty in ["", "\n# only a comment\n", "{}"] {
        let config = Config::from_yaml(empty, "empty.yml").expect("defaults");
        assert_eq!(config, Config::default());
    }
    let config = Config::default();
    assert_eq!(config.http.address.to_string(), "127.0.0.1:8889");
    assert_eq!(config.media.address.to_string(), "127.0.0.1:8189");
    assert_eq!(config.admin.address.to_string(), "127.0.0.1:9997");
    assert_eq!(config.rtsp.address, "127.0.0.1:8554".parse().ok());
    assert_eq!(config.rtsp.tls.address, None);
    assert_eq!(config.shards, None);
    assert_eq!(config.limits.handshake(), Duration::from_secs(10));
    assert!(config.auth.read_token.is_none());
    assert!(!config.sites().allows("https://anywhere.example"));
    assert!(config.specs().is_empty());
}

#[test]
fn a_whole_file_is_read() {
    let config = Config::from_yaml(
        "http: {address: '0.0.0.0:80'}\n\
         media:\n  address: 0.0.0.0:8189\n  advertise: [203.0.113.9, '2001:db8::1']\n\
         shards: 2\n\
         auth: {read_token: 0123456}\n\
         limits: {viewers: 5, ring_mib: 1, ring_s: 3, departed_s: 0}\n\
         sources:\n  cam: rtsp://u:p@10.0.0.7/live\n  hall: v.h264,a.ogg?fps=25\n  demo: demo\n\
         cors: {origins: ['https://example.com']}\n",
        "all.yml",
    )
    .expect("a good file");
    assert_eq!(config.http.address.port(), 80);
    assert_eq!(config.media.advertise.len(), 2);
    assert_eq!(config.shards, Some(2));
    let token = config.auth.read_token.as_ref().expect("a token");
    assert!(token.matches("0123456"), "a token of digits stays text");
    assert_eq!(config.limits.hub().ring_bytes, 1 << 20);
    assert_eq!(config.limits.hub().ring_span, Duration::from_secs(3));
    assert_eq!(config.limits.hub().departed_span, Duration::ZERO);
    // A key that is missing keeps its default.
    assert_eq!(config.limits.half_open, Limits::default().half_open);
    let names: Vec<_> = config
        .specs()
        .iter()
        .map(|spec| spec.name.to_string())
        .collect();
    assert_eq!(names, ["cam", "demo", "hall"]);
    assert!(!config.sites().allows("https://example.org"));
}

#[test]
fn options_of_a_source_may_be_keys() {
    let config = Config::from_yaml(
        "sources:\n  \
           yard: {source: 'rtsp://h/live?x=1', on_demand: true, idle_s: 30, transport: udp}\n  \
           hall: {source: v.h264, fps: 30000/1001, once: true}\n  \
           film: {source: v.h264, fps: 25}\n  \
           live: {source: publisher, placeholder: off.jpg}\n  \
           more: {source: publisher, placeholder: true, fallback: live, after_s: 3, silent_s: 4}\n",
        "all.yml",
    )
    .expect("a good file");
    let shown: Vec<_> = config.sources.values().map(ToString::to_string).collect();
    let yard = "rtsp://h/live?x=1&transport=udp&idle_s=30";
    assert_eq!(shown[0], "v.h264?fps=25");
    assert!(shown[1].ends_with("&once"), "{}", shown[1]);
    assert_eq!(shown[2], "publisher?placeholder=off.jpg");
    let more = "publisher?fallback=live&placeholder&after_s=3&silent_s=4";
    assert_eq!(shown[3], more);
    assert_eq!(shown[4], yard);
    for (entry, wanted) in [
        ("{source: 'rtsp://h/', idel_s: 3}", "did you mean 'idle_s'?"),
        (
            "{source: 'rtsp://h/', idle_s: 0}",
            "'0' is not a value of 'idle_s'",
        ),
        ("{source: demo, once: true}", "has no options"),
        ("{source: demo, ladder: [360]}", "like [720p, 360p]"),
        ("{source: demo, ladder: {a: 1}}", "like [720p, 360p]"),
        ("{source: v.h264, fps: [25]}", "a fraction like"),
        ("{source: publisher, placeholder: [1]}", "path of an image"),
        ("{on_demand: true}", "source"),
        ("[a]", "a source like"),
    ] {
        let shown = error(&format!("sources:\n  cam: {entry}\n"));
        assert!(shown.starts_with("test.yml:2:"), "{shown}");
        assert!(shown.contains(wanted), "{entry}: {shown}");
    }
}

#[test]
fn unknown_keys_name_file_line_and_the_nearest_key() {
    let shown = error("http:\n  adress: 127.0.0.1:80\n");
    assert!(
        shown.starts_with("test.yml:2:3: unknown key 'adress'"),
        "{shown}"
    );
    assert!(shown.ends_with("did you mean 'address'?"), "{shown}");
    let shown = error("shards: 1\nlimit:\n  viewers: 3\n");
    assert!(
        shown.starts_with("test.yml:2:1: unknown key 'limit'"),
        "{shown}"
    );
    assert!(shown.contains("did you mean 'limits'?"), "{shown}");
    let shown = error("auth: {zzz: 1}\n");
    assert!(shown.contains("publish_token, read_token"), "{shown}");
    let shown = error("paths:\n  cam: {source: 'rtsp://h/x'}\n");
    assert!(shown.contains("config import"), "{shown}");
    let shown = error("sources:\n\tcam: demo\n");
    assert!(
        shown.starts_with("test.yml:2:") && shown.ends_with("indent with spaces"),
        "{shown}"
    );
}

#[test]
fn bad_values_name_their_line() {
    for (yaml, place, wanted) in [
        ("shards: 0\n", "test.yml:1:", "1 to 256"),
        ("shards: many\n", "test.yml:1:", ""),
        ("#\nlimits: {viewers: 0}\n", "test.yml:2:", "at least 1"),
        (
            "#\n#\nhttp: {address: localhost}\n",
            "test.yml:3:",
            "like 0.0.0.0:8889",
        ),
        (
            "http: {address: 23001}\n",
            "test.yml:1:17",
            "like 0.0.0.0:8889",
        ),
        (
            "http: {address: off}\n",
            "test.yml:1:17",
            "like 0.0.0.0:8889",
        ),
        (
            "admin: {https: 'localhost:1'}\n",
            "test.yml:1:",
            "like 0.0.0.0:8889",
        ),
        (
            "limits: {viewers: -1}\n",
            "test.yml:1:19",
            "whole number from 0 on",
        ),
        ("webrtc: true\n", "test.yml:1:9", "keys are expected"),
        (
            "sources: {cam: 'rtsp:/192.0.2.7/live'}\n",
            "test.yml:1:",
            "rtsp://",
        ),
        (
            "media: {advertise: [0.0.0.0]}\n",
            "test.yml:1:",
            "cannot send to 0.0.0.0",
        ),
        (
            "sources:\n  a: x.h264\n  b c: y.h264\n",
            "test.yml:3:3",
            "' ' in stream name",
        ),
        (
            "sources:\n  a: x.h264\n  b: y.h264?fsp=3\n",
            "test.yml:3:",
            "did you mean 'fps'",
        ),
        (
            "cors: {origins: [example.com]}\n",
            "test.yml:1:",
            "not an origin",
        ),
        (
            "recordings:\n  record: [{streams: [a], folder: /b}, {streams: [b]}]\n",
            "test.yml:",
            "rule 2 of `record` has no folder",
        ),
        ("auth: {read_token: ''}\n", "test.yml:1:", "empty"),
        ("http: [\n", "test.yml:", ""),
        ("shards: 1\nshards: 2\n", "test.yml:2:1", "twice"),
    ] {
        let shown = error(yaml);
        assert!(shown.starts_with(place), "{yaml}: {shown}");
        assert!(shown.contains(wanted), "{yaml}: {shown}");
        assert_eq!(shown.lines().count(), 1, "{shown}");
    }
}

#[test]
fn printing_hides_secrets_and_reads_back() {
    let yaml = "auth: {publish_token: swordfish}\nsources: {cam: 'rtsp://u:hunter2@h/live'}\n";
    let config = Config::from_yaml(yaml, "s.yml").expect("a good file");
    for shown in [
        config.to_yaml(),
        config.to_json(),
        format!("{config:?} {config:#?}"),
    ] {
        assert!(!shown.contains("swordfish"), "{shown}");
        assert!(!shown.contains("hunter2"), "{shown}");
    }
    let plain = Config {
        shards: Some(3),
        ..Config::default()
    };
    let again = Config::from_yaml(&plain.to_yaml(), "printed.yml").expect("our own YAML");
    assert_eq!(again, plain);
    let again = Config::from_yaml(&plain.to_json(), "printed.json").expect("JSON is YAML");
    assert_eq!(again, plain);
}

#[test]
fn errors_hide_secrets() {
    let shown = error("auth: {read_token: [swordfish]}\n");
    assert!(!shown.contains("swordfish"), "{shown}");
    let shown = error("auth: {read_token: 'sword fish'}\n");
    assert!(!shown.contains("fish"), "{shown}");
    let shown = error("sources: {cam: 'rtsp://u:hunter2@h:99999/'}\n");
    assert!(!shown.contains("hunter2"), "{shown}");
}

#[test]
fn the_schema_knows_every_section() {
    let schema: serde_json::Value =
        serde_json::from_str(&Config::schema()).expect("a schema is JSON");
    for section in [
        "http", "media", "webrtc", "rtsp", "quic", "admin", "shards", "auth", "limits", "sources",
        "cors",
    ] {
        assert!(schema["properties"][section].is_object(), "{section}");
    }
    assert_eq!(schema["additionalProperties"], false);
}

/// Whether the schema allows `{file: PATH}` in the place that `keys` lead to.
fn takes_a_file(keys: &[&str]) -> bool {
    let schema: serde_json::Value =
        serde_json::from_str(&Config::schema()).expect("a schema is JSON");
    let resolve = |node: &serde_json::Value| match node["$ref"].as_str() {
        Some(path) => schema
            .pointer(path.trim_start_matches('#'))
            .expect("defined")
            .clone(),
        None => node.clone(),
    };
    let either = |node: &serde_json::Value| -> Vec<serde_json::Value> {
        let node = resolve(node);
        match node["anyOf"].as_array() {
            Some(all) => all.iter().map(resolve).collect(),
            None => vec![node],
        }
    };
    let mut nodes = vec![schema.clone()];
    for key in keys {
        let inner = |node: &serde_json::Value| match *key {
            "[]" => node.get("items").cloned(),
            "*" => node
                .get("additionalProperties")
                .filter(|it| it.is_object())
                .cloned(),
            _ => node["properties"].get(key).cloned(),
        };
        let below = nodes.iter().filter_map(inner).next();
        let below = below.unwrap_or_else(|| panic!("no {key} of {keys:?}"));
        // What may be null has its own alternatives one level further down.
        nodes = either(&below).iter().flat_map(either).collect();
    }
    let file = |node: &serde_json::Value| {
        node["properties"]["file"]["type"] == "string"
            && node["required"] == serde_json::json!(["file"])
            && node["additionalProperties"] == false
    };
    let is_text = |node: &serde_json::Value| match &node["type"] {
        serde_json::Value::Array(either) => either.iter().any(|it| it == "string"),
        one => one == "string",
    };
    assert!(nodes.iter().any(is_text), "{keys:?} takes text: {nodes:?}");
    nodes.iter().any(file)
}

#[test]
fn the_schema_lets_every_secret_stand_in_a_file_of_its_own() {
    for keys in [
        &["auth", "read_token"][..],
        &["auth", "tokens", "[]", "token"],
        &["auth", "users", "[]", "password"],
        &["auth", "users", "[]", "digest_md5"],
        &["auth", "jwt", "secret"],
        &["hooks", "[]", "secret"],
        &["webrtc", "ice_servers", "[]", "credential"],
        &["telemetry", "otlp", "headers", "*"],
        &["cluster", "nats", "password"],
    ] {
        assert!(takes_a_file(keys), "{keys:?}");
    }
    assert!(
        !takes_a_file(&["rtsp", "media_folder"]),
        "a path is no secret"
    );
}

#[test]
fn the_sample_file_is_valid_and_complete() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/glassline.yml");
    let sample = std::fs::read_to_string(&path).expect("the sample file");
    Config::load(&path).expect("the sample is valid as it stands");
    // Every commented-out line has a default value: with the comment signs removed the file must be
    // valid, and mean the same as an empty file.
    let all: String = sample
        .lines()
        .map(|line| line.strip_prefix("#: ").unwrap_or(line))
        .map(|line| format!("{line}\n"))
        .collect();
    let config = Config::from_yaml(&all, "glassline.yml").expect("the sample uncommented");
    let expected = Config {
        sources: config.sources.clone(),
        auth: config.auth.clone(),
        ..Config::default()
    };
    assert_eq!(config, expected);
    let schema: serde_json::Value =
        serde_json::from_str(&Config::schema()).expect("a schema is JSON");
    let sections = schema["properties"].as_object().expect("sections");
    for section in sections.keys() {
        assert!(all.contains(&format!("\n{section}:")), "{section}");
    }
    let told: serde_json::Value =
        serde_json::from_str(&Config::default().to_json()).expect("defaults are JSON");
    for (section, keys) in told.as_object().expect("sections") {
        let begin = all.find(&format!("\n{section}:")).unwrap_or_default();
        let below = all[begin..].lines().skip(2);
        let below: Vec<_> = below
            .take_while(|line| line.is_empty() || line.starts_with([' ', '#']))
            .collect();
        for key in keys.as_object().into_iter().flat_map(|it| it.keys()) {
            let is_there = below
                .iter()
                .any(|line| line.starts_with(&format!("  {key}:")));
            assert!(is_there, "{section}.{key}");
        }
    }
}

#[test]
fn files_in_a_configuration_are_relative_to_it() {
    let folder = std::env::temp_dir().join(format!("glassline-config-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join("g.yml");
    std::fs::write(&path, "sources: {a: v.h264, b: /abs/v.h264}\n").expect("a file");
    let config = Config::load(&path);
    std::fs::remove_dir_all(&folder).expect("cleaned up");
    let shown: Vec<_> = config
        .expect("a good file")
        .specs()
        .iter()
        .map(|spec| spec.input.to_string())
        .collect();
    assert_eq!(
        shown,
        [
            folder.join("v.h264").display().to_string(),
            "/abs/v.h264".to_owned()
        ]
    );
}

/// Returns a user as a file has it; the hash is that of `x`.
fn user(name: &str, more: &str) -> String {
    let password = "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    format!("- name: {name}\n  password: {password}\n{more}")
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("    {line}\n")).collect()
}

#[test]
fn users_that_cannot_be_name_their_line() {
    for (users, place, wanted) in [
        (
            user("ann", "  raed: ['*']\n"),
            "test.yml:5:",
            "did you mean 'read'",
        ),
        (
            user("ann", "  read: ['a*b']\n"),
            "test.yml:5:",
            "only at the end",
        ),
        (user("'a:b'", ""), "test.yml:3:", "':' in a user's name"),
        (
            user("ann", "  digest_md5: abc\n"),
            "test.yml:5:",
            "glassline user add",
        ),
        (
            "- {name: ann, password: hunter2}\n".to_owned(),
            "test.yml:3:",
            "glassline user add",
        ),
        (
            user("ann", "") + &user("ann", ""),
            "test.yml:",
            "'ann' is there twice",
        ),
    ] {
        let shown = error(&format!("auth:\n  users:\n{}", indented(&users)));
        assert!(shown.starts_with(place), "{users}: {shown}");
        assert!(shown.contains(wanted), "{users}: {shown}");
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}

#[test]
fn a_file_of_users_adds_to_those_in_the_configuration() {
    let folder = std::env::temp_dir().join(format!("glassline-users-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join("g.yml");
    let head = "auth:\n  users_file: users.yml\n  users:\n";
    let text = head.to_owned() + &indented(&user("ann", ""));
    std::fs::write(&path, text).expect("a file");
    let load = |users: &str| {
        std::fs::write(folder.join("users.yml"), users).expect("a file");
        Config::load(&path)
    };
    let both = load(&user("bob", "  read: [cam]\n"));
    let twice = load(&user("ann", ""));
    let broken = load("- name: bob\n  pasword: x\n");
    let none = load("# nobody yet\n");
    std::fs::remove_dir_all(&folder).expect("cleaned up");
    let both = both.expect("good files").auth.users;
    let names: Vec<_> = both.iter().map(|user| user.name.as_str()).collect();
    assert_eq!(names, ["ann", "bob"]);
    assert_eq!(none.expect("an empty list").auth.users.len(), 1);
    let shown = twice.expect_err("twice").to_string();
    assert!(
        shown.contains("users.yml: user 'ann' stands in `auth.users` too"),
        "{shown}"
    );
    let shown = broken.expect_err("a typing error").to_string();
    assert!(
        shown.contains("users.yml:2:3: unknown key 'pasword'"),
        "{shown}"
    );
}

#[test]
fn a_missing_file_is_named() {
    let shown = Config::load(Path::new("/nowhere/g.yml"))
        .expect_err("no such file")
        .to_string();
    assert!(shown.starts_with("/nowhere/g.yml: "), "{shown}");
}

#[test]
fn a_film_in_place_of_a_configuration_is_told_how_to_be_served() {
    let folder = std::env::temp_dir();
    for (name, bytes) in [("short", 3), ("long", 2 << 20)] {
        let path = folder.join(format!("glassline-{}-{name}.mp4", std::process::id()));
        std::fs::write(&path, vec![0xff; bytes]).expect("the folder takes files");
        let shown = Config::load(&path).expect_err(name).to_string();
        std::fs::remove_file(&path).expect("it is there");
        assert!(shown.contains("--source NAME=FILE"), "{shown}");
        assert!(shown.contains(&format!("{name}.mp4")), "{shown}");
    }
    let url = Path::new("rtsp://admin:hunter2@192.0.2.1/live");
    let shown = Config::load(url).expect_err("a URL").to_string();
    assert!(shown.contains("--source NAME=URL"), "{shown}");
    assert!(!shown.contains("hunter2"), "{shown}");
}
