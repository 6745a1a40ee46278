use std::fs;
use std::path::PathBuf;

use crate::Config;

/// A folder of this test, removed with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let name = format!("glassline-document-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(path.join("conf.d")).expect("a folder");
        Self(path)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).expect("written");
        path
    }

    /// Loads `main.yml` with this text; an error is shown without the folder.
    fn load(&self, text: &str) -> Result<Config, String> {
        let path = self.write("main.yml", text);
        let folder = format!("{}/", self.0.display());
        Config::load(&path).map_err(|error| error.to_string().replace(&folder, ""))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn all_mistakes_are_named_at_once_and_what_follows_from_one_is_not() {
    let text = "http: {adress: 127.0.0.1:80}\n\
                limits:\n  viewers: many\n  rooms: 0\n\
                hooks:\n  - {on: [publsh], command: [/bin/true]}\n\
                sources: {a//b: demo, cam: demo}\n";
    let error = Config::from_yaml(text, "t.yml").expect_err("five mistakes");
    let shown = error.to_string();
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines.len(), 5, "{shown}");
    for (line, wanted) in lines.iter().zip([
        "t.yml:1:8: unknown key 'adress': did you mean 'address'?",
        "t.yml:3:12: 'many': this must be a whole number",
        "t.yml:4:10: must be at least 1",
        "t.yml:6:",
        "t.yml:7:11: stream name 'a//b' has a '/'",
    ]) {
        assert!(shown.contains(wanted), "{wanted} in {shown} ({line})");
    }
    assert!(shown.contains("publish"), "the nearest event: {shown}");
}

#[test]
fn mistakes_are_bounded() {
    let keys = (0..500).map(|number| format!("wrong{number}: 1\n"));
    let shown = Config::from_yaml(&keys.collect::<String>(), "t.yml").expect_err("wrong");
    assert_eq!(shown.to_string().lines().count(), super::MISTAKES_MAX);
}

#[test]
fn included_files_are_merged_and_a_key_set_twice_names_both_places() {
    let folder = Folder::new("merged");
    folder.write(
        "conf.d/b.yml",
        "sources: {door: demo}\nlimits: {rooms: 3}\n",
    );
    folder.write("conf.d/a.yml", "sources: {gate: demo}\n");
    folder.write("conf.d/.hidden.yml", "nonsense: 1\n");
    folder.write("conf.d/notes.txt", "nonsense: 1\n");
    folder.write("more.yml", "include: conf.d/*.yml\nlimits: {viewers: 7}\n");
    let config = folder.load("include: [more.yml]\nsources: {yard: demo}\n");
    let config = config.expect("good files");
    let names: Vec<_> = config.sources.keys().map(ToString::to_string).collect();
    assert_eq!(names, ["door", "gate", "yard"]);
    assert_eq!((config.limits.viewers, config.limits.rooms), (7, 3));
    for read in [
        "main.yml",
        "more.yml",
        "conf.d",
        "conf.d/a.yml",
        "conf.d/b.yml",
    ] {
        assert!(config.files.read.contains(&folder.0.join(read)), "{read}");
    }
    let twice = folder.load("include: more.yml\n\nlimits: {viewers: 8}\n");
    let twice = twice.expect_err("set twice");
    let wanted = "more.yml:2:19: `limits.viewers` is set in main.yml:3, too";
    assert!(twice.starts_with(wanted), "{twice}");
}

#[test]
fn faults_of_included_files_name_file_line_and_column() {
    let folder = Folder::new("faults");
    folder.write("bad.yml", "# first\nlimits:\n  viewrs: 3\n");
    let unknown = folder
        .load("include: [bad.yml]\nshards: x\n")
        .expect_err("two");
    assert!(
        unknown.contains("bad.yml:3:3: unknown key 'viewrs'"),
        "{unknown}"
    );
    assert!(unknown.contains("main.yml:2:9: 'x'"), "{unknown}");
    folder.write("bad.yml", "limits: [\n");
    let broken = folder.load("include: [bad.yml]\n").expect_err("no YAML");
    assert!(broken.starts_with("bad.yml:"), "{broken}");
    folder.write("bad.yml", "- one\n");
    let list = folder.load("include: [bad.yml]\n").expect_err("a list");
    assert!(
        list.starts_with("bad.yml:1:1: an included file has keys"),
        "{list}"
    );
    let missing = folder
        .load("shards: 1\ninclude:\n- none.yml\n")
        .expect_err("missing");
    assert!(missing.starts_with("main.yml:3:3: none.yml"), "{missing}");
    folder.write("one.yml", "include: [two.yml]\n");
    folder.write("two.yml", "include: [one.yml]\n");
    let circle = folder.load("include: [one.yml]\n").expect_err("a circle");
    assert!(
        circle.starts_with("two.yml:1:11: one.yml includes itself"),
        "{circle}"
    );
    let own = folder.load("include: [main.yml]\n").expect_err("a circle");
    assert!(own.contains("includes itself"), "{own}");
    for number in 0..12 {
        let next = format!("include: deep{}.yml\n", number + 1);
        folder.write(&format!("deep{number}.yml"), &next);
    }
    let deep = folder.load("include: deep0.yml\n").expect_err("deep");
    assert!(deep.contains("include one another"), "{deep}");
    assert!(folder.load("include: {a: b}\n").is_err());
}

#[test]
fn secrets_come_from_files_and_are_shown_nowhere() {
    let folder = Folder::new("secrets");
    folder.write("conf.d/token", "swordfish-of-ann\r\n");
    folder.write("key", "0123456789abcdef\n");
    folder.write("camera", "rtsp://u:hunter2@h/live\n");
    let config = folder.load(
        "auth:\n  read_token: !file conf.d/token\n  \
         tokens: [{name: ops, role: viewer, token: {file: key}}]\n\
         sources: {cam: !file camera}\n",
    );
    let config = config.expect("good files");
    let token = config.auth.read_token.as_ref().expect("a token");
    assert!(token.matches("swordfish-of-ann"));
    assert!(config.auth.tokens[0].token.matches("0123456789abcdef"));
    assert!(
        config.files.read.contains(&folder.0.join("key")),
        "it is watched"
    );
    let shown = format!("{config:?} {} {}", config.to_yaml(), config.to_json());
    for secret in ["swordfish", "0123456789", "hunter2"] {
        assert!(!shown.contains(secret), "{secret}");
    }
    folder.write("key", "bad secret\n");
    let bad = folder
        .load("auth: {read_token: !file key}\n")
        .expect_err("a space");
    assert!(bad.starts_with("main.yml:1:26: character 4"), "{bad}");
    folder.write("key", "\n");
    let empty = folder
        .load("auth: {read_token: !file key}\n")
        .expect_err("empty");
    assert!(empty.contains("key: it is empty"), "{empty}");
    folder.write("key", &"x".repeat(70_000));
    let long = folder
        .load("auth: {read_token: {file: key}}\n")
        .expect_err("long");
    assert!(long.contains("more than 65536 bytes"), "{long}");
    let missing = folder
        .load("auth:\n  read_token: !file none\n")
        .expect_err("missing");
    assert!(missing.starts_with("main.yml:2:21: none: "), "{missing}");
    let tag = folder
        .load("auth: {read_token: !fiel none}\n")
        .expect_err("a tag");
    assert!(tag.contains("`!file`"), "{tag}");
}

#[test]
fn aliases_merge_keys_and_forms_of_values_are_yaml() {
    let config = Config::from_yaml(
        "limits: &more {viewers: 1_000, rooms: 0x10}\n\
         media: {tcp: off}\nhttps: {address: off}\n\
         auth: {read_token: 0123}\n\
         sources:\n  a: &film {source: demo}\n  b: *film\n  c:\n    <<: *film\n",
        "t.yml",
    );
    let config = config.expect("good YAML");
    assert_eq!((config.limits.viewers, config.limits.rooms), (1_000, 16));
    assert!(!config.media.tcp && config.sources.len() == 3);
    assert!(config.auth.read_token.expect("text").matches("0123"));
    let bomb = (1..40).map(|it| format!("a{it}: &a{it} [*a{0}, *a{0}, *a{0}]\n", it - 1));
    let bomb = format!("a0: &a0 [1, 2]\n{}", bomb.collect::<String>());
    let shown = Config::from_yaml(&bomb, "t.yml")
        .expect_err("a bomb")
        .to_string();
    assert!(shown.contains("more values"), "{shown}");
    let deep = format!("sources: {}{}", "[".repeat(200), "]".repeat(200));
    assert!(Config::from_yaml(&deep, "t.yml").is_err());
    let two = Config::from_yaml("shards: 1\n---\nshards: 2\n", "t.yml").expect_err("two");
    assert!(two.to_string().contains("second document"), "{two}");
}

#[test]
fn variables_name_themselves_and_replace_what_files_have() {
    let read = |text: &str, variables: &[(&str, &str)]| {
        let variables = variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Config::from_yaml_and_variables(text, "t.yml", variables).map_err(|it| it.to_string())
    };
    let config = read(
        "limits: {viewers: 3, rooms: 4}\n",
        &[("GLASSLINE_LIMITS_VIEWERS", "9")],
    );
    let limits = config.expect("good").limits;
    assert_eq!((limits.viewers, limits.rooms), (9, 4));
    let wrong = read("limitz: 1\n", &[("GLASSLINE_LIMITS_VIEWERS", "x")]).expect_err("two");
    assert!(wrong.contains("GLASSLINE_LIMITS_VIEWERS: 'x'"), "{wrong}");
    assert!(wrong.contains("t.yml:1:1: unknown key 'limitz'"), "{wrong}");
}
