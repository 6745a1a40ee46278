//! hls.js in Chromium: how far behind the source it plays, and how often it stands still.
//!
//! The delay is read from the number that is drawn into each frame of the built-in stream, so that it
//! relies on no timestamp of a server. The long forms print figures, beside MediaMTX where it is built.

use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use libtest_mimic::Failed;
use serde_json::{Value, json};

use crate::browser::{PATIENCE, ensure};
use crate::mediamtx::MediaMtx;
use crate::namespace::{HERE, Neighbor, browser_of};
use crate::peers::{Peer, Test};
use crate::server::Server;
use crate::webdriver::Browser;
use crate::{figure, http};

pub(crate) const TESTS: &[Test] = &[
    Test::of(&it_plays_near_live)
        .needs(&[Peer::Chromium])
        .alone(),
    Test::of(&it_plays_where_packets_are_lost)
        .needs(&[Peer::Chromium, Peer::Namespaces, Peer::Tun])
        .alone()
        .in_namespace(LONG),
    Test::of(&ten_minutes_without_a_stall)
        .needs(&[Peer::Chromium])
        .soak(),
    Test::of(&loopback_beside_mediamtx)
        .needs(&[Peer::Chromium])
        .soak(),
    Test::of(&loss_beside_mediamtx)
        .needs(&[Peer::Chromium, Peer::Namespaces, Peer::Tun])
        .soak()
        .in_namespace(LONG.saturating_mul(4)),
    Test::of(&first_frame_of_the_page)
        .needs(&[Peer::Chromium])
        .soak(),
];

/// Long, for a browser in a namespace on a busy machine.
const LONG: Duration = Duration::from_secs(240);

/// A path on which TCP repairs what is lost, while what follows waits.
const LOSSY: &str = "rtt=40ms loss=1%";

/// Time that a player has until it is where it stays.
const SETTLING: Duration = Duration::from_secs(10);

/// Time for which one player is watched beside another one, and how often they take turns.
const SPAN: Duration = Duration::from_secs(60);
const TURNS: usize = 2;

/// Pages that are opened for the time of the first frame.
const PAGES: usize = 10;

/// The shorter test observes little time on a busy machine and a debug build: what it must not miss is a
/// player that falls back further and further, or stands still again and again.
const SHORT: Duration = Duration::from_secs(10);
const SHORT_DELAY_MAX_MS: f64 = 8_000.0;
const SHORT_STALLS_MAX: usize = 3;

/// Time for which a server is stopped: more than a player of HLS with low latency holds.
const STANDING_STILL: Duration = Duration::from_secs(6);

/// When each frame of the built-in stream was due, by the calendar of this machine.
struct FrameClock {
    /// Time of frame 0, in ms since 1970-01-01 UTC.
    epoch_ms: f64,
    frame_ms: f64,
    /// Number of frames after which the numbers begin anew.
    frames: f64,
}

impl FrameClock {
    /// Reads the clock of the built-in stream of a server on this machine.
    fn of(server: &Server) -> Result<Self, String> {
        let code = http::get_json(&server.admin_url("/api/v1/streams/demo/frame-code"))?;
        let before_ms = unix_ms();
        let clock = http::get_json(&server.admin_url("/api/v1/clock"))?;
        let now_ms = f64::midpoint(before_ms, unix_ms());
        let number = |of: &Value, name: &str| {
            let found = of[name].as_f64();
            found.ok_or_else(|| format!("no number {name} in {of}"))
        };
        let age_ns = number(&clock, "received_ns")? - number(&code, "epoch_ns")?;
        Ok(Self {
            epoch_ms: now_ms - age_ns / 1e6,
            frame_ms: 1000.0 / number(&code, "fps")?,
            frames: number(&code, "frames")?,
        })
    }
}

fn unix_ms() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_secs_f64() * 1e3
}

/// The observation of one player.
#[derive(Clone, Debug, Default)]
struct Watched {
    /// Time from each frame to its presentation, in ms, in order of size.
    delays_ms: Vec<f64>,
    /// Lengths of the times in which the player had nothing to show, in ms.
    stalls_ms: Vec<f64>,
}

impl Watched {
    fn delay_ms(&self, share: f64) -> Option<f64> {
        let rank = (self.delays_ms.len() as f64 * share).ceil().max(1.0);
        self.delays_ms.get(rank as usize - 1).copied()
    }

    fn add(&mut self, other: Self) {
        self.delays_ms.extend(other.delays_ms);
        self.delays_ms.sort_by(f64::total_cmp);
        self.stalls_ms.extend(other.stalls_ms);
    }

    /// The figures in words.
    fn told(&self) -> String {
        let [p50, p95] = [0.5, 0.95].map(|share| self.delay_ms(share).unwrap_or_default() / 1e3);
        let (count, longest) = (self.stalls_ms.len(), self.longest_stall_ms() / 1e3);
        format!("{p50:.2} s behind (p95 {p95:.2} s), {count} stalls, the longest {longest:.2} s")
    }

    fn longest_stall_ms(&self) -> f64 {
        self.stalls_ms.iter().copied().fold(0.0, f64::max)
    }

    fn print(&self, name: &str, beside: Option<&Self>) {
        let of = |other: &Self, share| other.delay_ms(share).unwrap_or_default() / 1e3;
        let stalls = |of: &Self| of.stalls_ms.len() as f64;
        for (what, share) in [("p50", 0.5), ("p95", 0.95)] {
            let beside = beside.map(|it| ("MediaMTX", of(it, share)));
            let name = format!("{name}: delay {what}");
            figure::print(&name, of(self, share), "s", "less", beside);
        }
        let beside = beside.map(|it| ("MediaMTX", stalls(it)));
        figure::print(&format!("{name}: stalls"), stalls(self), "", "less", beside);
    }
}

/// Plays a playlist with the settings of our page, and reads the number in every fifth frame. A stall
/// begins when the player has nothing to show, and ends with the next frame; nobody sees one of 20 ms.
fn script(playlist: &str, clock: &FrameClock) -> String {
    let FrameClock {
        epoch_ms,
        frame_ms,
        frames,
    } = clock;
    format!(
        "const video = document.createElement('video');
        video.muted = true;
        document.body.replaceChildren(video);
        const seen = globalThis.seen = {{ delays: [], stalls: [], frames: 0, error: null, waits: null }};
        Promise.all([import('/-/hls.min.mjs'), import('/-/framecode.js')]).then(([hlsJs, codes]) => {{
            const Hls = hlsJs.default;
            const hls = new Hls({{ lowLatencyMode: true, enableWorker: false, backBufferLength: 10,
                maxLiveSyncPlaybackRate: 1.1 }});
            hls.on(Hls.Events.ERROR, (_, {{ fatal, details }}) => {{ if (fatal) seen.error = details; }});
            hls.on(Hls.Events.MANIFEST_PARSED, () => video.play());
            hls.loadSource('{playlist}');
            hls.attachMedia(video);
            video.addEventListener('waiting', () => {{
                if (seen.frames > 0) seen.waits ??= performance.now();
            }});
            const reader = new codes.FrameCodeReader();
            const next = (now, metadata) => {{
                video.requestVideoFrameCallback(next);
                if (seen.waits !== null && now - seen.waits > 20) seen.stalls.push(now - seen.waits);
                seen.waits = null;
                seen.frames += 1;
                if (seen.frames % 5 !== 0) return;
                const shownMs = performance.timeOrigin + metadata.presentationTime;
                reader.read(video, metadata).then((code) => {{
                    if (code === null) return;
                    const loopMs = {frames} * {frame_ms};
                    const ms = (shownMs - {epoch_ms} - code * {frame_ms}) % loopMs;
                    seen.delays.push(ms < 0 ? ms + loopMs : ms);
                }});
            }};
            video.requestVideoFrameCallback(next);
        }}).catch((error) => {{ seen.error = String(error); }});"
    )
}

/// Watches `playlist` for `span` in a page of the server at `base`, after the player has settled.
fn watch(
    browser: &Browser,
    base: &str,
    playlist: &str,
    clock: &FrameClock,
    span: Duration,
) -> Result<Watched, String> {
    browser.bypass_policy()?;
    browser.open(&format!("{base}/call"))?;
    browser.run(&script(playlist, clock))?;
    let plays = "return seen.error ?? (seen.frames > 0 ? 'plays' : false)";
    let begun = browser.wait_until(LONG, plays)?;
    if begun != "plays" {
        return Err(format!("{playlist}: {begun}"));
    }
    thread::sleep(SETTLING);
    browser.run("seen.delays = []; seen.stalls = [];")?;
    thread::sleep(span);
    let seen = browser.run(
        "if (seen.waits !== null) seen.stalls.push(performance.now() - seen.waits);
        return seen;",
    )?;
    if !seen["error"].is_null() {
        return Err(format!("{playlist}: {}", seen["error"]));
    }
    let numbers = |name: &str| -> Vec<f64> {
        let all = seen[name].as_array().into_iter().flatten();
        all.filter_map(Value::as_f64).collect()
    };
    let mut watched = Watched::default();
    watched.add(Watched {
        delays_ms: numbers("delays"),
        stalls_ms: numbers("stalls"),
    });
    // A third of the numbers that there are to read.
    let least = span.as_secs_f64() * 1000.0 / clock.frame_ms / 15.0;
    if (watched.delays_ms.len() as f64) < least {
        let read = watched.delays_ms.len();
        return Err(format!(
            "{playlist}: {read} numbers of frames read in {span:?}"
        ));
    }
    Ok(watched)
}

fn ours_watched(browser: &Browser, server: &Server, span: Duration) -> Result<Watched, String> {
    let playlist = server.url("/demo/hls/index.m3u8");
    let clock = FrameClock::of(server)?;
    watch(browser, &server.url(""), &playlist, &clock, span)
}

fn near_live(watched: &Watched) -> Result<(), Failed> {
    println!("{}", watched.told());
    let delay = watched.delay_ms(0.5).unwrap_or(f64::INFINITY);
    let found = json!(watched.told());
    // Nothing is presented before it was made; the numbers of a wrong clock would be anywhere.
    ensure(
        (150.0..SHORT_DELAY_MAX_MS).contains(&delay),
        "delay",
        &found,
    )?;
    let stalls = watched.stalls_ms.len();
    ensure(stalls <= SHORT_STALLS_MAX, "stalls", &found)
}

fn it_plays_near_live() -> Result<(), Failed> {
    let server = Server::demo()?;
    let browser = Browser::start()?;
    near_live(&ours_watched(&browser, &server, SHORT)?)?;
    // A server that stands still for longer than the player holds is seen as a stall.
    server.signal("-STOP")?;
    thread::sleep(STANDING_STILL);
    server.signal("-CONT")?;
    browser.wait_until(PATIENCE, "return Math.max(0, ...seen.stalls) > 1000")?;
    Ok(())
}

fn ten_minutes_without_a_stall() -> Result<(), Failed> {
    let server = Server::demo()?;
    let watched = ours_watched(&Browser::start()?, &server, 10 * SPAN)?;
    watched.print("ten minutes", None);
    let found = json!(watched.told());
    ensure(watched.stalls_ms.is_empty(), "a stall", &found)
}

/// Has a playlist of ours and one of MediaMTX watched in turns, each for [`SPAN`] a turn, in a new browser.
fn in_turns(
    name: &str,
    base: &str,
    ours: &str,
    mediamtx: Option<&MediaMtx>,
    clock: &FrameClock,
    browser: impl Fn() -> Result<Browser, String>,
) -> Result<(), String> {
    let mut playlists = vec![ours];
    playlists.extend(mediamtx.map(MediaMtx::playlist));
    let mut all = vec![Watched::default(); playlists.len()];
    for _ in 0..TURNS {
        for (playlist, watched) in playlists.iter().zip(&mut all) {
            watched.add(watch(&browser()?, base, playlist, clock, SPAN)?);
        }
    }
    for (playlist, watched) in playlists.iter().zip(&all) {
        println!("{playlist}: {}", watched.told());
    }
    all[0].print(name, all.get(1));
    Ok(())
}

/// Starts MediaMTX where it is built.
fn mediamtx(source: &Server, address: &str) -> Option<MediaMtx> {
    let started = MediaMtx::pulling(&source.rtsp_url("demo"), address);
    let absent = |reason: String| println!("without MediaMTX: {reason}");
    started.map_err(absent).ok()
}

fn loopback_beside_mediamtx() -> Result<(), Failed> {
    let server = Server::demo()?;
    let clock = FrameClock::of(&server)?;
    let mediamtx = mediamtx(&server, "127.0.0.1");
    let (base, ours) = (server.url(""), server.url("/demo/hls/index.m3u8"));
    in_turns(
        "loopback",
        &base,
        &ours,
        mediamtx.as_ref(),
        &clock,
        Browser::start,
    )?;
    Ok(())
}

/// A server at the near end of a path with losses, and a browser's machine at the far end.
struct FarAway {
    neighbor: Neighbor,
    server: Server,
    base: String,
}

impl FarAway {
    fn start() -> Result<Self, String> {
        let neighbor = Neighbor::behind(&LOSSY.parse()?)?;
        let here = format!("http: {{address: '{HERE}:0'}}\n");
        let server = Server::configured(&here, &["demo=demo"])?;
        Ok(Self {
            neighbor,
            base: server.url("").replace("127.0.0.1", HERE),
            server,
        })
    }

    fn playlist(&self) -> String {
        format!("{}/demo/hls/index.m3u8", self.base)
    }
}

fn it_plays_where_packets_are_lost() -> Result<(), Failed> {
    let far = FarAway::start()?;
    let clock = FrameClock::of(&far.server)?;
    let browser = browser_of(&far.neighbor)?;
    let watched = watch(&browser, &far.base, &far.playlist(), &clock, SHORT)?;
    // Some 1.3 Mbit/s are a hundred packets a second.
    let lost = far.neighbor.lost();
    ensure(lost > 5, "the path loses packets", &json!(lost))?;
    near_live(&watched)
}

fn loss_beside_mediamtx() -> Result<(), Failed> {
    let far = FarAway::start()?;
    let clock = FrameClock::of(&far.server)?;
    let mediamtx = mediamtx(&far.server, HERE);
    let (ours, browser) = (far.playlist(), || browser_of(&far.neighbor));
    in_turns(LOSSY, &far.base, &ours, mediamtx.as_ref(), &clock, browser)?;
    println!("{} packets were lost", far.neighbor.lost());
    Ok(())
}

/// Opens the page of a stream that somebody watches by HLS, as a viewer who chose HLS.
fn first_frame_of_the_page() -> Result<(), Failed> {
    let server = Server::demo()?;
    let browser = Browser::start()?;
    browser.open(&server.url("/demo"))?;
    browser.run("localStorage.setItem('glassline-how', 'hls')")?;
    let plays = "return glassline.how === 'hls' && glassline.framesRendered > 30
        && glassline.firstFrameMs";
    let mut times_ms = Vec::new();
    for _ in 0..=PAGES {
        browser.open(&server.url("/demo"))?;
        times_ms.extend(browser.wait_until(PATIENCE, plays)?.as_f64());
    }
    // The first page began the stream's segments.
    times_ms.remove(0);
    times_ms.sort_by(f64::total_cmp);
    let [p50, longest] = [PAGES / 2 - 1, PAGES - 1].map(|at| times_ms[at]);
    println!("first frame after {p50:.0} ms, at most {longest:.0} ms");
    figure::print("first frame p50", p50, "ms", "less", None);
    figure::print("first frame, longest", longest, "ms", "less", None);
    Ok(())
}
