//! Configurations of MediaMTX.

use glassline_config::{YamlEntry, YamlNode};

use super::draft::{Draft, address, list, quoted};
use super::mediamtx_users as users;
use super::sources::{ForeignSource, is_nothing, is_on, put_publisher};

/// Settings that this server has no part for: key, MediaMTX's default, and why. A default is left out in
/// silence.
const LEFT_OUT: &[(&str, &str, &str)] = &[
    (
        "rtmp",
        "",
        "no RTMP here: FFmpeg or OBS publish by WHIP or RTSP",
    ),
    ("srt", "", "no SRT here"),
    ("moq", "", "MoQ is set by `quic`"),
    (
        "playback",
        "",
        "recordings are played at `/-/playback` of `http`, by users with the right `playback`",
    ),
    ("pprof", "", "no pprof here"),
    (
        "runOnConnect",
        "",
        "no programs are run for clients; `hooks` are told of streams",
    ),
    (
        "runOnDisconnect",
        "",
        "no programs are run for clients; `hooks` are told of streams",
    ),
    (
        "authHTTPAddress",
        "",
        "set `auth.webhook`, whose questions have another form",
    ),
    (
        "authJWTJWKS",
        "",
        "set `auth.jwt`, whose claim has another form",
    ),
    ("authMethod", "internal", "set `auth.webhook` or `auth.jwt`"),
    ("logDestinations", "stdout", "the log goes to stderr"),
    ("logLevel", "info", "set `log.filter`"),
    ("readTimeout", "10s", "no counterpart here"),
    ("writeTimeout", "10s", "no counterpart here"),
    ("webrtcIPsFromInterfaces", "true", "no counterpart here"),
];

/// Beginnings of keys that belong to a listener which is on only if a key of its own says so, or that
/// tune what this server does by itself.
const TUNING: &[&str] = &[
    "rtmp",
    "hls",
    "srt",
    "moq",
    "playback",
    "pprof",
    "metrics",
    "api",
    "webrtc",
    "rtsp",
    "rtp",
    "rtcp",
    "multicast",
    "auth",
    "log",
    "write",
    "udp",
    "sysLog",
    "runOnConnectRestart",
];

/// Keys of a path that this server has no part for: key, MediaMTX's default, and why.
const LEFT_OUT_OF_PATHS: &[(&str, &str, &str)] = &[
    (
        "record",
        "",
        "name the stream in `recordings.record`, and the folder in `recordings.folder`",
    ),
    (
        "maxReaders",
        "0",
        "no limit of viewers for one stream here; limits.viewers is for all",
    ),
    (
        "overridePublisher",
        "true",
        "WHIP's `?override` takes over here",
    ),
    (
        "runOnInit",
        "",
        "no programs are run for a stream; have it publish by itself",
    ),
    (
        "runOnDemand",
        "",
        "no programs are run for a stream; have it publish by itself",
    ),
    (
        "runOnReady",
        "",
        "set a hook: `hooks: [{on: [publish], command: […]}]`",
    ),
    (
        "runOnAvailable",
        "",
        "set a hook: `hooks: [{on: [publish], command: […]}]`",
    ),
    (
        "runOnOnline",
        "",
        "set a hook: `hooks: [{on: [publish], command: […]}]`",
    ),
    (
        "runOnOffline",
        "",
        "set a hook: `hooks: [{on: [unpublish], command: […]}]`",
    ),
    (
        "runOnUnavailable",
        "",
        "set a hook: `hooks: [{on: [unpublish], command: […]}]`",
    ),
    (
        "runOnNotReady",
        "",
        "set a hook: `hooks: [{on: [unpublish], command: […]}]`",
    ),
    (
        "runOnRead",
        "",
        "set a hook: `hooks: [{on: [read], command: […]}]`",
    ),
    (
        "runOnUnread",
        "",
        "set a hook: `hooks: [{on: [unread], command: […]}]`",
    ),
    (
        "alwaysAvailable",
        "",
        "set `placeholder` or `fallback` of the source",
    ),
    ("srtReadPassphrase", "", "no SRT here"),
    ("srtPublishPassphrase", "", "no SRT here"),
    ("useAbsoluteTimestamp", "", "no counterpart here"),
    ("sourceRedirect", "", "no counterpart here"),
];

/// Returns whether the keys are those of MediaMTX.
pub(super) fn has_keys_of(root: &YamlNode) -> bool {
    let keys = [
        "paths",
        "pathDefaults",
        "authInternalUsers",
        "rtspAddress",
        "webrtcAddress",
    ];
    keys.iter().any(|key| root.get(key).is_some())
}

/// Takes a configuration of MediaMTX.
pub(super) fn take(root: &YamlNode, draft: &mut Draft) {
    Listeners { root }.take(draft);
    let no_defaults = Vec::new();
    let defaults = root
        .get("pathDefaults")
        .map_or(&no_defaults[..], YamlNode::entries);
    for entry in root.entries() {
        let (key, value) = (entry.key.as_str(), &entry.value);
        match key {
            "paths" => value
                .entries()
                .iter()
                .for_each(|it| path(it, defaults, draft)),
            "pathDefaults" => left_out_of_path(defaults, draft),
            "authInternalUsers" => users::take(value, draft),
            _ => leave_out(LEFT_OUT, entry, TUNING, draft),
        }
    }
}

/// Notes a key that could not be taken, unless it has the default or nothing.
fn leave_out(table: &[(&str, &str, &str)], entry: &YamlEntry, tuning: &[&str], draft: &mut Draft) {
    let (key, value) = (entry.key.as_str(), &entry.value);
    if is_nothing(value) {
        return;
    }
    match table.iter().find(|(known, ..)| *known == key) {
        Some((_, default, _))
            if value.entries().is_empty()
                && value.items().iter().all(|it| it.text() == *default) => {}
        Some((_, _, why)) => draft.note(entry.line, key, *why),
        None if tuning.iter().any(|it| key.starts_with(it)) => {}
        None => draft.note(entry.line, key, "unknown here"),
    }
}

/// The listeners of a configuration.
struct Listeners<'a> {
    root: &'a YamlNode,
}

impl Listeners<'_> {
    fn take(&self, draft: &mut Draft) {
        let is_off = |key: &str| self.root.get(key).is_some_and(|it| !is_on(it));
        self.webrtc(draft);
        self.hls(draft);
        if is_off("rtsp") {
            draft.set("rtsp", "address", "null");
        } else {
            self.rtsp(draft);
        }
        if let Some(api) = self.root.get("api").filter(|it| is_on(it)) {
            match self.text("apiAddress") {
                Some((line, text)) => draft.listen("admin", line, "apiAddress", text),
                None => draft.note(
                    api.line,
                    "api",
                    "listens at 127.0.0.1:9997 (`admin.address`)",
                ),
            }
        }
        if let Some(metrics) = self.root.get("metrics").filter(|it| is_on(it)) {
            draft.note(
                metrics.line,
                "metrics",
                "at the port of the API (`admin.address`), as /metrics",
            );
        }
    }

    /// Returns line and text of a key that has one.
    fn text(&self, key: &str) -> Option<(u64, &str)> {
        let node = self.root.get(key)?;
        (!node.text().is_empty()).then(|| (node.line, node.text()))
    }

    fn webrtc(&self, draft: &mut Draft) {
        if let Some(webrtc) = self.root.get("webrtc").filter(|it| !is_on(it)) {
            draft.note(webrtc.line, "webrtc", "pages and WebRTC are always on here");
        }
        let is_secure = self.root.get("webrtcEncryption").is_some_and(is_on);
        let section = if is_secure { "https" } else { "http" };
        if let Some((line, text)) = self.text("webrtcAddress") {
            draft.listen(section, line, "webrtcAddress", text);
        }
        if is_secure {
            for (key, of) in [
                ("certificate", "webrtcServerCert"),
                ("key", "webrtcServerKey"),
            ] {
                if let Some((_, path)) = self.text(of) {
                    draft.set("tls", key, quoted(path));
                }
            }
        }
        if let Some((line, text)) = self.text("webrtcLocalUDPAddress") {
            draft.listen("media", line, "webrtcLocalUDPAddress", text);
        }
        if let Some((line, tcp)) = self.text("webrtcLocalTCPAddress") {
            let udp = self
                .text("webrtcLocalUDPAddress")
                .and_then(|(_, it)| address(it));
            if address(tcp).map(|it| it.port()) != udp.map(|it| it.port()) {
                draft.note(
                    line,
                    "webrtcLocalTCPAddress",
                    "TCP has the port of UDP here",
                );
            }
        }
        let texts = |key: &str| {
            let node = self.root.get(key);
            let items = node.into_iter().flat_map(YamlNode::items);
            items.map(|it| it.text().to_owned()).collect::<Vec<_>>()
        };
        let hosts = texts("webrtcAdditionalHosts");
        if !hosts.is_empty() {
            draft.set("media", "advertise", list(&hosts));
        }
        let proxies = texts("webrtcTrustedProxies");
        if !proxies.is_empty() {
            draft.set("http", "trusted_proxies", list(&proxies));
        }
        let origins = [texts("webrtcAllowOrigins"), texts("webrtcAllowOrigin")].concat();
        // MediaMTX's default lets every site embed the streams; that of this server is no site.
        draft
            .origins
            .extend(origins.into_iter().filter(|it| it != "*" && !it.is_empty()));
        self.ice_servers(draft);
    }

    fn hls(&self, draft: &mut Draft) {
        let Some(hls) = self.root.get("hls") else {
            return;
        };
        let why = "HLS is always on, at `/NAME/hls/index.m3u8` of `http`; `hls` tunes it";
        draft.note(hls.line, "hls", why);
    }

    fn ice_servers(&self, draft: &mut Draft) {
        let servers = self.root.get("webrtcICEServers2");
        let mut taken = Vec::new();
        for server in servers.into_iter().flat_map(YamlNode::items) {
            let text = |key: &str| server.get(key).map_or("", YamlNode::text);
            let mut keys = format!("url: {}", quoted(text("url")));
            match text("username") {
                "" => {}
                "AUTH_SECRET" => keys += &format!(", secret: {}", quoted(text("password"))),
                user => {
                    let password = quoted(text("password"));
                    keys += &format!(", username: {}, credential: {password}", quoted(user));
                }
            }
            taken.push(format!("{{{keys}}}"));
        }
        if !taken.is_empty() {
            draft.set("webrtc", "ice_servers", format!("[{}]", taken.join(", ")));
        }
    }

    fn rtsp(&self, draft: &mut Draft) {
        let encryption = self.root.get("rtspEncryption").map_or("no", YamlNode::text);
        match (encryption, self.text("rtspAddress")) {
            ("strict", _) => draft.set("rtsp", "address", "null"),
            (_, Some((line, text))) => draft.listen("rtsp", line, "rtspAddress", text),
            (_, None) => {}
        }
        if let Some(transports) = self.root.get("rtspTransports").filter(|it| !is_nothing(it))
            && !transports.items().iter().any(|it| it.text() == "udp")
        {
            draft.set("rtsp", "udp", "false");
        }
        if !["strict", "optional"].contains(&encryption) {
            return;
        }
        let at = self.text("rtspsAddress").map_or(":8322", |(_, text)| text);
        let mut keys = match address(at) {
            Some(address) => format!("address: {}", quoted(&address.to_string())),
            None => return,
        };
        for (key, of) in [("certificate", "rtspServerCert"), ("key", "rtspServerKey")] {
            if let Some((_, path)) = self.text(of) {
                keys += &format!(", {key}: {}", quoted(path));
            }
        }
        draft.set("rtsp", "tls", format!("{{{keys}}}"));
    }
}

/// Takes a path: its own keys win over the defaults of all paths.
fn path(entry: &YamlEntry, defaults: &[YamlEntry], draft: &mut Draft) {
    let (name, line) = (entry.key.as_str(), entry.line);
    let own = entry.value.entries();
    let others = defaults
        .iter()
        .filter(|it| own.iter().all(|own| own.key != it.key));
    let keys: Vec<&YamlEntry> = own.iter().chain(others).collect();
    let text = |key: &str| {
        let found = keys.iter().find(|it| it.key == key);
        found.map_or("", |it| it.value.text())
    };
    let source = match text("source") {
        "" => "publisher",
        source => source,
    };
    let is_any = ["all", "all_others"].contains(&name);
    let is_publisher = source == "publisher";
    left_out_of_path(own, draft);
    if is_any && is_publisher {
        // Whoever may publish chooses any name here, too.
        return;
    }
    if is_any || name.starts_with('~') {
        return draft.note(line, name, "a source for many names: give each stream one");
    }
    let fallback = text("fallback").trim_start_matches('/');
    if is_publisher {
        return put_publisher(
            draft,
            name,
            line,
            Some(fallback).filter(|it| !it.is_empty()),
        );
    }
    let mut options = Vec::new();
    if ["yes", "true"].contains(&text("sourceOnDemand")) {
        options.push(("on_demand", "true".to_owned()));
        if let Some(seconds) = seconds(text("sourceOnDemandCloseAfter")) {
            options.push(("idle_s", seconds.to_string()));
        }
    }
    let transport = [text("rtspTransport"), text("sourceProtocol")];
    if transport.contains(&"udp") {
        options.push(("transport", quoted("udp")));
    }
    if !text("sourceFingerprint").is_empty() {
        options.push(("sha256", quoted(text("sourceFingerprint"))));
    }
    if !fallback.is_empty() {
        options.push(("fallback", quoted(fallback)));
    }
    ForeignSource {
        name,
        line,
        text: source,
        options,
    }
    .put(draft);
}

/// Notes the keys of a path, or of all paths, that could not be taken.
fn left_out_of_path(keys: &[YamlEntry], draft: &mut Draft) {
    const TUNING: &[&str] = &[
        "record",
        "rpiCamera",
        "rtspUDP",
        "mpegts",
        "runOnInitRestart",
        "runOnDemandRestart",
        "runOnDemandStartTimeout",
        "runOnDemandCloseAfter",
        "runOnReadyRestart",
        "runOnAvailableRestart",
        "runOnOnlineRestart",
        "runOnReadRestart",
    ];
    for key in keys {
        if !TAKEN_OF_PATHS.contains(&key.key.as_str()) {
            leave_out(LEFT_OUT_OF_PATHS, key, TUNING, draft);
        }
    }
}

/// Keys of a path that are taken.
const TAKEN_OF_PATHS: &[&str] = &[
    "source",
    "sourceFingerprint",
    "sourceOnDemand",
    "sourceOnDemandCloseAfter",
    "sourceOnDemandStartTimeout",
    "sourceProtocol",
    "rtspTransport",
    "rtspAnyPort",
    "rtspRangeType",
    "rtspRangeStart",
    "fallback",
];

/// Returns a time such as `10s` or `1m` in seconds.
fn seconds(text: &str) -> Option<u32> {
    let split = text.find(|it: char| !it.is_ascii_digit())?;
    let (number, unit) = text.split_at(split);
    let factor = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => return None,
    };
    number.parse::<u32>().ok()?.checked_mul(factor)
}
