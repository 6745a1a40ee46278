//! Configurations of go2rtc.

use glassline_access::auth::{Account, Name, Pattern, salt};
use glassline_config::YamlNode;

use super::draft::{Draft, list, quoted};
use super::sources::{ForeignSource, is_nothing};

/// Sections that this server has no part for, and why.
const LEFT_OUT: &[(&str, &str)] = &[
    ("ffmpeg", "templates of FFmpeg are not read here"),
    ("exec", "`limits.programs` says how many programs may run"),
    ("publish", "no streams are pushed to other servers here"),
    (
        "preload",
        "a source without `on_demand` is always connected",
    ),
    ("homekit", "no HomeKit here"),
    ("hass", "Home Assistant's list of cameras is not read here"),
    (
        "ngrok",
        "no tunnels are opened here: set media.advertise to the public address",
    ),
    ("srtp", "SRTP for RTSP is `?srtp` in the client's URL"),
    ("hls", "HLS is tuned by `hls`"),
    ("mp4", "no MP4 by HTTP here"),
    ("log", "the log's level is `log.filter`"),
];

/// Takes a configuration of go2rtc.
pub(super) fn take(root: &YamlNode, draft: &mut Draft) {
    for entry in root.entries() {
        let (key, value, line) = (entry.key.as_str(), &entry.value, entry.line);
        match key {
            "streams" => value
                .entries()
                .iter()
                .for_each(|it| stream(&it.key, it.line, &it.value, draft)),
            "api" => api(value, draft),
            "rtsp" => rtsp(value, draft),
            "webrtc" => webrtc(value, draft),
            _ if is_nothing(value) => {}
            _ => {
                let known = LEFT_OUT.iter().find(|(known, _)| *known == key);
                draft.note(line, key, known.map_or("unknown here", |(_, why)| why));
            }
        }
    }
}

/// Takes a stream. go2rtc connects to its sources while somebody watches.
fn stream(name: &str, line: u64, value: &YamlNode, draft: &mut Draft) {
    let sources = value.items();
    let is_camera = |it: &&YamlNode| {
        let text = it.text().to_ascii_lowercase();
        ["rtsp", "http"]
            .iter()
            .any(|scheme| text.starts_with(scheme))
    };
    let Some(first) = sources.iter().find(is_camera).or_else(|| sources.first()) else {
        return draft.note(
            line,
            name,
            "a stream without a source: whoever publishes it makes it",
        );
    };
    for other in sources.iter().filter(|it| !std::ptr::eq(*it, first)) {
        let why = match other.text().starts_with("ffmpeg:") {
            true => "left out: sound is transcoded for browsers here without a source for it",
            false => "left out: a stream has one source here",
        };
        draft.note(other.line, name, why);
    }
    let (text, parameters) = first.text().split_once('#').unwrap_or((first.text(), ""));
    if !is_camera(&first) {
        let (line, text, options) = (first.line, first.text(), Vec::new());
        return ForeignSource {
            name,
            line,
            text,
            options,
        }
        .put(draft);
    }
    let mut options = vec![("on_demand", "true".to_owned())];
    for parameter in parameters.split('#').filter(|it| !it.is_empty()) {
        match parameter.split_once('=') {
            Some(("timeout", seconds)) => options.push(("timeout_s", quoted(seconds))),
            Some(("transport", "tcp")) => {}
            Some(("transport", "udp")) => options.push(("transport", quoted("udp"))),
            _ => draft.note(
                first.line,
                name,
                format!("'#{parameter}' has no counterpart here"),
            ),
        }
    }
    let line = first.line;
    ForeignSource {
        name,
        line,
        text,
        options,
    }
    .put(draft);
}

fn api(section: &YamlNode, draft: &mut Draft) {
    let (mut certificate, mut key) = (None, None);
    for entry in section.entries().iter().filter(|it| !is_nothing(&it.value)) {
        let (text, line) = (entry.value.text(), entry.line);
        match entry.key.as_str() {
            "listen" => draft.listen("http", line, "listen", text),
            "tls_listen" => draft.listen("https", line, "tls_listen", text),
            "tls_cert" => certificate = Some((line, text)),
            "tls_key" => key = Some((line, text)),
            "base_path" => draft.set("http", "base_path", quoted(text.trim_end_matches('/'))),
            "origin" => draft.origins.push(text.to_owned()),
            "username" | "password" => draft.note(
                line,
                &entry.key,
                "pages and streams have users with rights here: `glassline user add`",
            ),
            other => draft.note(line, other, "no counterpart here"),
        }
    }
    for (name, found) in [("certificate", certificate), ("key", key)] {
        match found {
            Some((line, text)) if text.contains("-----BEGIN") => {
                draft.note(line, name, "write the PEM to a file, and name it in `tls`");
            }
            Some((_, path)) => draft.set("tls", name, quoted(path)),
            None => {}
        }
    }
}

fn rtsp(section: &YamlNode, draft: &mut Draft) {
    let (mut user, mut password) = (None, None);
    for entry in section.entries() {
        let (text, line) = (entry.value.text(), entry.line);
        match entry.key.as_str() {
            "listen" if text.is_empty() => draft.set("rtsp", "address", "null"),
            "listen" => draft.listen("rtsp", line, "listen", text),
            "username" => user = Some((line, text)),
            "password" => password = Some(text),
            _ if is_nothing(&entry.value) => {}
            other => draft.note(line, other, "no counterpart here"),
        }
    }
    let Some((line, user)) = user.filter(|(_, user)| !user.is_empty()) else {
        return;
    };
    let all = || vec![Pattern::parse("**").expect("a pattern")];
    match Name::parse(user) {
        Ok(name) => draft.users.push(Account {
            read: all(),
            publish: all(),
            ..Account::new(name, password.unwrap_or_default(), &salt())
        }),
        Err(error) => draft.note(line, "username", error.to_string()),
    }
}

fn webrtc(section: &YamlNode, draft: &mut Draft) {
    for entry in section.entries().iter().filter(|it| !is_nothing(&it.value)) {
        let (line, key) = (entry.line, entry.key.as_str());
        match key {
            "listen" => {
                let (text, protocol) = entry
                    .value
                    .text()
                    .split_once('/')
                    .unwrap_or((entry.value.text(), ""));
                draft.listen("media", line, key, text);
                if protocol == "udp" {
                    draft.set("media", "tcp", "false");
                }
            }
            "candidates" => candidates(&entry.value, draft),
            "ice_servers" => draft.note(
                line,
                key,
                "go2rtc's own STUN and TURN servers; for browsers set `webrtc.ice_servers`",
            ),
            other => draft.note(line, other, "no counterpart here"),
        }
    }
}

/// Takes the addresses that clients send to; the port is that of `media.address`.
fn candidates(value: &YamlNode, draft: &mut Draft) {
    let mut advertised = Vec::new();
    for item in value.items() {
        let text = item.text();
        match text.strip_prefix("stun:") {
            Some(_) => advertised.push("stun:stun.l.google.com:19302".to_owned()),
            None => {
                let host = text.rsplit_once(':').map_or(text, |(host, _)| host);
                advertised.push(host.trim_matches(['[', ']']).to_owned());
            }
        }
    }
    draft.set("media", "advertise", list(&advertised));
}
