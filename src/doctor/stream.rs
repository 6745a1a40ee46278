//! What a server's API says about one stream: its state, its source, and its latest failures.

use std::time::Duration;

use glassline_client::probe::http::{Ask, exchange};
use glassline_client::trust::Trust;
use serde_json::Value;
use url::Url;

use super::finding::Finding;

const CHECK: &str = "stream";

/// Time that each request may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// Port at which operators of the server's own machine read failures.
const ADMIN_PORT: u16 = 9997;

/// Most failures that are listed.
const FAILURES_MAX: usize = 3;

/// Asks the API of the server at `base` for the stream `name`.
pub(super) fn check(base: &Url, name: &str, token: Option<&str>, trust: Trust) -> Vec<Finding> {
    let token = token.filter(|_| trust == Trust::System);
    let get = |base: &Url, path: &str| get(base, path, token, trust);
    let mut findings = Vec::new();
    if let Some(entry) = get(base, &format!("api/v1/streams/{name}")) {
        findings.push(state(name, &entry));
        findings.extend(unplayed(name, &entry));
    }
    if let Some(told) = get(base, &publishing(name)) {
        findings.extend(published(name, &told));
    }
    let admin = admin(base);
    let token = super::admin_token();
    let get = |base: &Url, path: &str| self::get(base, path, token.as_deref(), trust);
    let failed = admin.as_ref().and_then(|admin| {
        let path = format!("api/v1/failures?stream={name}");
        get(admin, &path)
    });
    findings.extend(failed.iter().flat_map(failures));
    let paths = admin.and_then(|admin| get(&admin, &format!("api/v1/streams/{name}/latency")));
    findings.extend(paths.and_then(|told| without_layer(name, &told)));
    findings
}

/// The viewers whose path carries less than the only layer of the stream.
fn without_layer(name: &str, told: &Value) -> Option<Finding> {
    let paths = told["paths"].as_array()?.iter();
    let lacking = paths.filter(|path| {
        let reason = path["layer"]["reason"].as_str();
        reason.is_some_and(|it| it.contains("the only layer"))
    });
    let count = lacking.count();
    let what = format!("the path carries less than the only layer for {count} viewers");
    (count > 0).then(|| {
        Finding::warning(CHECK, name, what)
            .why("they skip to keyframes, and see pauses")
            .change(format!(
                "give the source {name} a ladder: `ladder: [720p, 360p]`; of 720p, 360p takes about a fifth of \
                 a core, both layers two thirds, while somebody needs them"
            ))
    })
}

/// Asks the listener for operators at `base` how the source `name` is.
pub(super) fn source(base: &Url, name: &str) -> Vec<Finding> {
    let token = super::admin_token();
    let get = |path: &str| get(base, path, token.as_deref(), Trust::System);
    // Without a role nothing is told.
    let is_told = |entry: &Value| entry["status"] != 401 && entry["status"] != 403;
    let entry = get(&format!("api/v1/streams/{name}")).filter(is_told);
    let told = entry.as_ref().and_then(|_| get(&publishing(name)));
    let state = entry.iter().map(|entry| state(name, entry));
    let unplayed = entry.iter().flat_map(|entry| unplayed(name, entry));
    let published = told.iter().flat_map(|told| published(name, told));
    state.chain(unplayed).chain(published).collect()
}

fn publishing(name: &str) -> String {
    format!("api/v1/streams/{name}/publishing")
}

fn get(base: &Url, path: &str, token: Option<&str>, trust: Trust) -> Option<Value> {
    let ask = Ask {
        method: "GET",
        body: None,
        token,
        headers: &[],
        trust,
        patience: PATIENCE,
    };
    let answer = exchange(&base.join(path).ok()?, &ask).ok()?;
    serde_json::from_str(&answer.body).ok()
}

/// The listener for operators, if the server is on this machine.
fn admin(base: &Url) -> Option<Url> {
    let host = base.host_str()?;
    let is_here = matches!(host, "127.0.0.1" | "localhost" | "[::1]");
    is_here.then(|| Url::parse(&format!("http://{host}:{ADMIN_PORT}/")).ok())?
}

fn state(name: &str, entry: &Value) -> Finding {
    let state = entry["state"].as_str().unwrap_or("absent");
    let detail = entry["detail"].as_str().unwrap_or_default();
    let tracks = entry["tracks"].as_array().into_iter().flatten();
    let tracks: Vec<String> = tracks.filter_map(track).collect();
    let bitrate = entry["bitrate_bps"].as_f64().unwrap_or_default() / 1e6;
    let viewers = entry["viewers"].as_u64().unwrap_or_default();
    match state {
        "live" => Finding::ok(
            CHECK,
            name,
            format!(
                "live: {}; {bitrate:.1} Mbit/s, {viewers} viewers",
                tracks.join(", ")
            ),
        ),
        "absent" => Finding::failure(CHECK, name, "there is no stream of this name")
            .why("viewers get 404")
            .change("see the names on the index page; add it under `sources:`, or publish it"),
        "idle" => Finding::ok(CHECK, name, "connects when somebody watches"),
        other => {
            let what = match detail {
                "" => other.to_owned(),
                detail => format!("{other}: {detail}"),
            };
            Finding::failure(CHECK, name, what)
                .why("viewers wait for a picture")
                .change(remedy(name, entry))
        }
    }
}

/// Returns what to do about a source that is away, by the protocol that it came by. A source of the
/// server's own that never came has none, and its name takes no publishers.
fn remedy(name: &str, entry: &Value) -> String {
    match entry["source"]["protocol"].as_str() {
        Some("camera") => format!(
            "see that the camera is on and that this machine reaches it (`glassline cameras` lists those \
             of the network); if its address or password is another one, correct the source {name}"
        ),
        Some("file") => format!("correct the files of the source {name}"),
        None if entry["takes_publishers"] == false => format!(
            "see that what the reason names is there, and that this machine reaches it: the server tries \
             again by itself; if something else is meant, correct the source {name}"
        ),
        _ => "start the publisher again; its own log says why it ended".to_owned(),
    }
}

/// The video in codecs that no browser plays; Motion JPEG is shown as pictures.
fn unplayed(name: &str, entry: &Value) -> Vec<Finding> {
    let tracks = entry["tracks"].as_array().into_iter().flatten();
    let refused =
        tracks.filter(|it| it["browser"]["hindrance"] == "codec" && it["codec"] != "JPEG");
    let finding = |track: &Value| {
        let note = track["browser"]["note"].as_str()?;
        let (what, remedy) = note.split_once("; ")?;
        let finding = Finding::warning(CHECK, name, what)
            .why("viewers get no picture, or a transcoded one")
            .change(remedy);
        Some(finding)
    };
    refused.filter_map(finding).collect()
}

/// A track in words, with a note for browsers if there is one.
fn track(track: &Value) -> Option<String> {
    let codec = match track["codec"].as_str()? {
        // Names in SDP, which nobody else uses.
        sdp if sdp.eq_ignore_ascii_case("mpeg4-generic") => "AAC",
        "MP4V-ES" => "MPEG-4",
        "MP2T" => "MPEG transport stream",
        codec => codec,
    };
    let size = track["width"].as_u64().zip(track["height"].as_u64());
    let size = size.map_or_else(String::new, |(width, height)| format!(" {width}x{height}"));
    let browser = &track["browser"];
    // How such a track is mended, the advice for its publisher says.
    let note = match browser["codec"].is_null() {
        true => Some("not for browsers"),
        false => browser["note"].as_str(),
    };
    let note = note.map_or_else(String::new, |note| format!(" ({note})"));
    Some(format!("{codec}{size}{note}"))
}

/// Findings about keyframes and B-frames, with the settings of encoders.
fn published(name: &str, told: &Value) -> Vec<Finding> {
    let tracks = told["tracks"].as_array().into_iter().flatten();
    let mut intervals = tracks.filter_map(|track| track["keyframe_interval_s"].as_f64());
    let interval = intervals.next().map(|interval| {
        let what = format!("a keyframe every {interval:.1} s: so long a first picture may wait");
        Finding::ok(CHECK, name, what)
    });
    let advice = told["advice"].as_array();
    let advice = advice.map_or(&[][..], Vec::as_slice);
    let findings = advice.iter().map(|advice| {
        let settings = advice["settings"].as_array().into_iter().flatten();
        let settings = settings.filter_map(|it| {
            let (program, setting) = (it["program"].as_str()?, it["setting"].as_str()?);
            Some(format!("{program}: {setting}"))
        });
        let settings: Vec<String> = settings.collect();
        let detail = advice["detail"].as_str().unwrap_or_default();
        let problem = advice["problem"].as_str().unwrap_or_default();
        let why = match problem {
            "keyframe_interval" => "a viewer's first picture waits for a keyframe",
            _ => "viewers get no picture, or a transcoded one",
        };
        Finding::warning(CHECK, name, detail)
            .why(why)
            .change(settings.join("; "))
    });
    interval.into_iter().chain(findings).collect()
}

/// The latest connections that failed.
fn failures(told: &Value) -> Vec<Finding> {
    let failures = told["failures"].as_array();
    let failures = failures.map_or(&[][..], Vec::as_slice);
    let text = |failure: &Value, key: &str| failure[key].as_str().unwrap_or_default().to_owned();
    let findings = failures.iter().take(FAILURES_MAX).map(|failure| {
        let count = failure["count"].as_u64().unwrap_or(1);
        let who = text(failure, "role");
        let what = format!(
            "in the last hour, {count} failed: {}",
            text(failure, "reason")
        );
        let subject = match who.as_str() {
            "" => "connections".to_owned(),
            who => format!("{who}s"),
        };
        Finding::warning("failures", subject, what)
            .why(format!("it ended at the stage {}", text(failure, "stage")))
            .change(text(failure, "remedy"))
    });
    findings.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Severity;
    use serde_json::json;

    #[test]
    fn a_live_stream_is_described() {
        let entry = json!({
            "state": "live", "detail": null, "viewers": 2, "bitrate_bps": 2_500_000,
            "tracks": [
                {"codec": "H264", "width": 1280, "height": 720, "browser": {"codec": "H264"}},
                {"codec": "MPEG4-GENERIC", "browser": {"codec": "opus", "note": "as Opus"}},
            ],
        });
        let found = state("cam", &entry);
        assert_eq!(found.severity, Severity::Ok);
        assert_eq!(
            found.what,
            "live: H264 1280x720, AAC (as Opus); 2.5 Mbit/s, 2 viewers"
        );
        let down = json!({
            "state": "down", "detail": "no route to host", "source": {"protocol": "camera"},
        });
        let down = state("cam", &down);
        assert_eq!(down.severity, Severity::Failure);
        assert!(down.what.contains("no route to host"));
        assert!(down.change.contains("camera is on"), "{}", down.change);
        let away = json!({
            "state": "down", "detail": "there is no /dev/video0", "source": null, "takes_publishers": false,
        });
        let away = state("cam", &away);
        assert!(
            away.change.contains("correct the source cam"),
            "{}",
            away.change
        );
        let left = state(
            "cam",
            &json!({"state": "down", "source": {"protocol": "whip"}}),
        );
        assert!(left.change.contains("publisher"), "{}", left.change);
    }

    #[test]
    fn a_camera_at_rest_is_in_order() {
        let idle = state("cam", &json!({"state": "idle", "detail": null}));
        assert_eq!(idle.severity, Severity::Ok);
        assert_eq!(idle.what, "connects when somebody watches");
    }

    #[test]
    fn a_video_that_browsers_refuse_is_named() {
        let entry = json!({"state": "live", "tracks": [
            {"codec": "H264", "browser": {"codec": null, "note": "H.264 with B-frames: …"}},
        ]});
        let found = state("cam", &entry);
        assert!(
            found.what.starts_with("live: H264 (not for browsers)"),
            "{}",
            found.what
        );
    }

    #[test]
    fn a_codec_that_no_browser_plays_comes_with_what_to_do() {
        let track = |codec: &str, hindrance: &str| {
            let note = "it is a codec that browsers do not decode; have the source send H.264";
            json!({"codec": codec, "browser": {"codec": null, "hindrance": hindrance, "note": note}})
        };
        let tracks = [
            track("MP4V-ES", "codec"),
            track("JPEG", "codec"),
            track("H264", "b_frames"),
        ];
        let found = unplayed("cam", &json!({"state": "live", "tracks": tracks}));
        let [finding] = &found[..] else {
            panic!("{} findings", found.len());
        };
        assert_eq!(finding.severity, Severity::Warning);
        assert_eq!(finding.change, "have the source send H.264");
    }

    #[test]
    fn viewers_with_too_narrow_a_path_for_the_only_layer_get_a_ladder() {
        let path = |reason: &str| json!({"viewer": "ab", "layer": {"reason": reason}});
        let told = json!({"paths": [
            path("the path carries less than the only layer; `ladder: [360p]` at the source helps"),
            path("the path carries 0.8 of 2.7 Mbit/s"),
            {"viewer": "cd"},
        ]});
        let found = without_layer("cam", &told).expect("one viewer");
        assert_eq!(found.severity, Severity::Warning);
        assert!(found.what.ends_with("for 1 viewers"), "{}", found.what);
        assert!(found.change.contains("`ladder: [720p, 360p]`"));
        assert!(without_layer("cam", &json!({"paths": [{"viewer": "cd"}]})).is_none());
    }

    #[test]
    fn advice_comes_with_the_settings_of_encoders() {
        let told = json!({"tracks": [{"keyframe_interval_s": 10.0}], "advice": [{
            "problem": "keyframe_interval", "detail": "10.0 s between keyframes",
            "settings": [{"program": "OBS", "setting": "Keyframe Interval 2 s"}],
        }]});
        let found = published("cam", &told);
        assert!(found[0].what.starts_with("a keyframe every 10.0 s"));
        assert_eq!(found[1].severity, Severity::Warning);
        assert_eq!(found[1].change, "OBS: Keyframe Interval 2 s");
    }

    #[test]
    fn failures_of_the_last_hour_are_told_with_their_remedies() {
        let told = json!({"failures": [{
            "role": "viewer", "stage": "ice", "reason": "no check answered",
            "remedy": "set media.advertise", "count": 3,
        }]});
        let found = failures(&told);
        assert_eq!(found[0].subject, "viewers");
        assert!(found[0].what.contains("3 failed: no check answered"));
        assert_eq!(found[0].change, "set media.advertise");
    }

    #[test]
    fn failures_are_asked_for_on_this_machine_only() {
        let admin = |url: &str| admin(&Url::parse(url).expect("a URL")).map(String::from);
        let here = admin("http://127.0.0.1:8889/");
        assert_eq!(here.as_deref(), Some("http://127.0.0.1:9997/"));
        assert_eq!(admin("https://media.test/"), None);
    }
}
