//! A stream watched in Chromium over a path with a long round trip that loses packets.

use std::time::Duration;

use glassline_client::impairment::{Impairment, ImpairmentProxy};
use libtest_mimic::Failed;
use serde_json::Value;

use crate::browser::ensure;
use crate::camera_layers::{LONG, film_with, watch_through};
use crate::http;
use crate::peers::{Peer, Test};
use crate::process::eventually;
use crate::server::Server;
use crate::webdriver::Browser;

pub(crate) const TESTS: &[Test] = &[Test::of(&lost_packets_are_rebuilt_without_asking)
    .needs(&[Peer::Ffmpeg, Peer::Chromium])
    .alone()];

/// Time that each viewer is watched, from the first FEC packet on.
const WATCHED: Duration = Duration::from_secs(20);

/// A script that has the server see an offer without FEC, and without copies in the audio.
const STRIP: &str = "
    const send = window.fetch;
    window.fetch = (to, options) => {
        const is_offer = typeof options?.body === 'string';
        const strip = () => options.body
            .replace(/ flexfec-03\\//g, ' unknown/')
            .replace(/ red\\/48000/g, ' unknown/48000');
        return send(to, is_offer ? { ...options, body: strip() } : options);
    };";

/// A browser's figures of what it receives.
const FIGURES: &str = "
    return (async () => {
        const found = { video: {}, audio: {} };
        const seen = await watchedPeer.getStats();
        seen.forEach((it) => { if (it.type === 'inbound-rtp') found[it.kind] = it; });
        return found;
    })()";

/// Arguments of FFmpeg for a tone in Opus.
const TONE: [&str; 8] = [
    "-f",
    "lavfi",
    "-i",
    "sine=frequency=440:sample_rate=48000:duration=12",
    "-c:a",
    "libopus",
    "-b:a",
    "64k",
];

/// Figures over some time.
#[derive(Debug)]
struct Figures {
    fec_packets: f64,
    fec_bytes: f64,
    bytes: f64,
    frozen_s: f64,
    frames: f64,
    /// Samples of the audio that nothing brought.
    concealed: f64,
}

impl Figures {
    fn read(viewer: &Browser) -> Result<Self, Failed> {
        let told = viewer.run(FIGURES)?;
        let of = |kind: &str, name: &str| told[kind][name].as_f64().unwrap_or_default();
        let number = |name| of("video", name);
        Ok(Self {
            fec_packets: number("fecPacketsReceived"),
            fec_bytes: number("fecBytesReceived"),
            bytes: number("bytesReceived"),
            frozen_s: number("totalFreezesDuration"),
            frames: number("framesDecoded"),
            concealed: of("audio", "concealedSamples"),
        })
    }

    fn since(self, before: &Self) -> Self {
        Self {
            fec_packets: self.fec_packets - before.fec_packets,
            fec_bytes: self.fec_bytes - before.fec_bytes,
            bytes: self.bytes - before.bytes,
            frozen_s: self.frozen_s - before.frozen_s,
            frames: self.frames - before.frames,
            concealed: self.concealed - before.concealed,
        }
    }
}

/// Watches `far` over a path of its own. Returns the figures of a time that begins with the first
/// repairs, or with the video where it has none.
fn watch(server: &Server, has_fec: bool) -> Result<Figures, Failed> {
    let path: Impairment = "rtt=300ms loss=3%".parse()?;
    let proxy = ImpairmentProxy::start(&path, server.media())?;
    let script = if has_fec { "" } else { STRIP };
    let viewer = watch_through(server, &proxy, "/far", script)?;
    eventually(LONG, || match Figures::read(&viewer) {
        Ok(told) if has_fec && told.fec_packets == 0.0 => Err(format!("no FEC: {told:?}")),
        Ok(_) => Ok(()),
        Err(error) => Err(format!("{error:?}")),
    })?;
    let before = Figures::read(&viewer)?;
    std::thread::sleep(WATCHED);
    let figures = Figures::read(&viewer)?.since(&before);
    println!("FEC {has_fec}: {figures:?}");
    if has_fec {
        let told = http::get_json(&server.admin_url("/api/v1/webrtc/viewers"))?;
        let viewers = told["viewers"].as_array().cloned().unwrap_or_default();
        let percents = viewers.iter().map(|it| &it["path"]["fec_percent"]);
        let most = percents.filter_map(Value::as_u64).max();
        ensure(most.is_some_and(|it| (8..=20).contains(&it)), "told", &told)?;
        let repairs =
            "return document.body.textContent.match(/repairs ahead: \\d+ %/)?.[0] ?? null";
        viewer.wait_until(LONG, repairs)?;
        viewer.screenshot("far-viewers")?;
    }
    Ok(figures)
}

fn lost_packets_are_rebuilt_without_asking() -> Result<(), Failed> {
    let film = film_with("1280x720", "1500k", &TONE)?;
    let server = Server::serve(&[&format!("far={film}")])?;
    let (with, without) = std::thread::scope(|scope| {
        let with = scope.spawn(|| watch(&server, true));
        let without = watch(&server, false);
        let with = with.join().map_err(|_| Failed::from("a panic"));
        (with.flatten(), without)
    });
    let (with, without) = (with?, without?);
    let told = Value::from(format!("{with:?} {without:?}"));
    let media = with.bytes - with.fec_bytes;
    ensure(with.fec_bytes <= 0.21 * media, "at most a fifth", &told)?;
    ensure(without.fec_packets == 0.0, "none without an offer", &told)?;
    ensure(
        2.0 * with.concealed < without.concealed,
        "copies bring most of the audio that is lost",
        &told,
    )?;
    // Of two times of twenty seconds, the better way may have the worse luck by a freeze.
    let is_better = with.frozen_s < without.frozen_s + 1.0;
    ensure(is_better, "less stands still", &told)
}
