//! Rooms, RTSP and drains through a balancer, in front of servers that know no public address.

use std::process::{Command, Stdio};
use std::time::Duration;

use glassline_client::viewers::{Endpoint, Join, Options, Pool, State};
use libtest_mimic::Failed;

use crate::balancer::Balancer;
use crate::browser;
use crate::call::silent_call;
use crate::cluster::{publish, wait_for_each_other, wait_for_owner};
use crate::nats::Nats;
use crate::peers::{Peer, Test};
use crate::process::{PATIENCE, Running, eventually};
use crate::server::{Server, glassline};
use crate::webdriver::Browser;

pub(crate) const TESTS: &[Test] = &[
    Test::of(&participants_of_a_room_meet_again_when_its_server_is_lost).needs(&[Peer::Nats]),
    Test::of(&rtsp_is_published_and_played_and_played_again_after_a_drain).needs(&[Peer::Nats]),
    Test::of(&a_page_of_a_server_that_stops_plays_from_another)
        .needs(&[Peer::Nats, Peer::Chromium])
        .alone(),
    Test::of(&viewers_go_to_a_server_that_has_come).needs(&[Peer::Nats]),
];

/// Longest time without a frame when a server sends its viewers away, on a busy machine.
const GAP_MAX_MS: f64 = 5_000.0;

fn node(name: &str, nats: &Nats, more: &str) -> Result<Server, String> {
    let url = nats.url();
    let yaml = format!(
        "cluster: {{name: {name}, secret: shared-by-all, nats: '{url}', linger_s: 2{more}}}\n"
    );
    Server::configured(&yaml, &[])
}

fn three(nats: &Nats, more: &str) -> Result<[Server; 3], String> {
    let [a, b, c] = ["a", "b", "c"].map(|name| node(name, nats, more));
    let nodes = [a?, b?, c?];
    wait_for_each_other(&nodes.each_ref())?;
    Ok(nodes)
}

/// Waits until a participant has told `times` times that `other` is there.
fn meets(participant: &Running, other: &str, times: usize) -> Result<(), String> {
    let wanted = format!("{other} is here");
    eventually(PATIENCE, || {
        let printed = participant.printed();
        match printed.lines().filter(|it| it.ends_with(&wanted)).count() >= times {
            true => Ok(()),
            false => Err(format!("not {times} times '{wanted}': {printed}")),
        }
    })
}

fn participants_of_a_room_meet_again_when_its_server_is_lost() -> Result<(), Failed> {
    let nats = Nats::start()?;
    let nodes = three(&nats, "")?;
    let balancer = Balancer::in_front_of(&nodes.each_ref())?;
    let url = balancer.url("/call/team");
    let call = |name: &str| Running::start(name, silent_call(&[&url, "--name", name]));
    let ann = call("ann")?;
    let owner = || {
        nodes
            .iter()
            .position(|it| it.metric("glassline_rooms") == Ok(1.0))
    };
    let has_room = || owner().ok_or_else(|| "nobody has the room".to_owned());
    let first = eventually(PATIENCE, has_room)?;
    let bob = call("bob")?;
    let eve = call("eve")?;
    for (one, other) in [(&ann, "bob"), (&bob, "eve"), (&eve, "ann")] {
        meets(one, other, 1)?;
    }
    nodes[first].signal("-KILL")?;
    for (one, other) in [(&ann, "bob"), (&bob, "eve"), (&eve, "ann")] {
        meets(one, other, 2)?;
    }
    Ok(())
}

/// Plays ten frames of a stream by RTSP with FFmpeg.
fn plays(url: &str) -> Result<(), String> {
    let mut player = Command::new("timeout");
    player.args([
        "20",
        "ffmpeg",
        "-loglevel",
        "error",
        "-rtsp_transport",
        "tcp",
    ]);
    player.args(["-i", url, "-frames:v", "10", "-an", "-f", "null", "-"]);
    let ended = player.stdin(Stdio::null()).output();
    let ended = ended.map_err(|error| error.to_string())?;
    match ended.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&ended.stderr).into_owned()),
    }
}

fn rtsp_is_published_and_played_and_played_again_after_a_drain() -> Result<(), Failed> {
    let nats = Nats::start()?;
    let mut nodes = three(&nats, ", drain_s: 6")?;
    let balancer = Balancer::for_rtsp(&nodes.each_ref())?;
    let url = balancer.rtsp_url("film");
    let publisher = glassline(&["publish", "demo", &url, "--log", "warn"]);
    let _publisher = Running::start("publisher", publisher)?;
    // Every server in turn.
    let played = || (0..3).try_for_each(|_| eventually(PATIENCE, || plays(&url)));
    played()?;
    // The server of the publisher stops: the publisher comes to another one.
    let owned = |it: &Server| it.metric("glassline_cluster_streams_owned") == Ok(1.0);
    let owner = nodes
        .iter()
        .position(owned)
        .ok_or("nobody has the stream")?;
    nodes[owner].stop(Duration::from_secs(30))?;
    played()?;
    Ok(())
}

fn a_page_of_a_server_that_stops_plays_from_another() -> Result<(), Failed> {
    let nats = Nats::start()?;
    let mut nodes = three(&nats, ", drain_s: 6")?;
    let _cam = publish(&nodes[0], "/cam/whip")?;
    nodes[0].wait_for_state("cam", "live")?;
    for other in &nodes[1..] {
        wait_for_owner(other, "cam", "a")?;
    }
    let balancer = Balancer::in_front_of(&[&nodes[1], &nodes[2]])?;
    let browser = Browser::start()?;
    browser.open(&balancer.url("/cam"))?;
    let plays = "return glassline.state === 'live' && glassline.reports >= 2 && glassline.server";
    let from = browser.wait_until(browser::PATIENCE, plays)?;
    let longest = "window.gap = 0; let last = performance.now(); const look = () => { \
                   const now = performance.now(); const frames = glassline.framesRendered; \
                   if (frames !== window.framesBefore) { window.gap = Math.max(window.gap, now - last); \
                   last = now; window.framesBefore = frames; } requestAnimationFrame(look); }; look();";
    browser.run(longest)?;
    let drained = if from == "b" { 1 } else { 2 };
    let stopping = nodes[drained].stop(Duration::from_secs(30));
    let back = "return glassline.state === 'live' && glassline.sessions === 2 && glassline.server";
    let to = browser.wait_until(browser::PATIENCE, back);
    let to = to?;
    stopping?;
    let gap_ms = browser.run("return window.gap")?;
    let seen = format!("from {from} to {to} with a gap of {gap_ms} ms");
    println!("{seen}");
    // A page that comes back to the server that drains stays there until its end.
    let is_short = gap_ms.as_f64().is_some_and(|it| it < GAP_MAX_MS);
    match from != to && is_short {
        true => Ok(()),
        false => Err(seen.into()),
    }
}

fn viewers(server: &Server) -> u64 {
    let stream = server.stream("cam");
    stream.map_or(0, |it| it["viewers"].as_u64().unwrap_or(0))
}

/// Viewers that join again when their session ends, as players do.
struct Crowd {
    pool: Pool,
    join: Join,
}

impl Crowd {
    fn of(count: usize, server: &Server) -> Result<Self, String> {
        let pool = Pool::start(Options::default()).map_err(|error| error.to_string())?;
        let endpoint = Endpoint::parse(&server.url("/cam/whep"));
        let join = Join::new(endpoint.map_err(|error| error.to_string())?);
        for _ in 0..count {
            pool.join(join.clone());
        }
        Ok(Self { pool, join })
    }

    /// Lets those join again whose session has ended.
    fn rejoin(&self) {
        for viewer in self.pool.snapshot() {
            if viewer.state == State::Ended {
                self.pool.leave(viewer.id);
                self.pool.join(self.join.clone());
            }
        }
    }
}

fn viewers_go_to_a_server_that_has_come() -> Result<(), Failed> {
    let nats = Nats::start()?;
    let [http, rtsp] = crate::ports::free_ports()?;
    let member = |name: &str, [http, rtsp]: [u16; 2]| {
        let yaml = format!(
            "cluster: {{name: {name}, secret: shared-by-all, nats: '{}', linger_s: 2, rebalance: all, \
             public: {{http: 'http://127.0.0.1:{http}'}}}}\n",
            nats.url()
        );
        Server::configured_on([http, rtsp], &yaml, &[])
    };
    let a = member("a", [http, rtsp])?;
    let _cam = publish(&a, "/cam/whip")?;
    a.wait_for_state("cam", "live")?;
    let crowd = Crowd::of(10, &a)?;
    let all_there = || match (crowd.rejoin(), viewers(&a)) {
        ((), 10) => Ok(()),
        ((), some) => Err(format!("{some} viewers of 10")),
    };
    eventually(PATIENCE, all_there)?;
    let b = member("b", crate::ports::free_ports()?)?;
    // The mean is 5, of which 1.25 times as many stay.
    let moved = || a.metric("glassline_cluster_viewers_moved_total");
    let is_over = || match (crowd.rejoin(), moved()? as u64) {
        ((), 4) => Ok(()),
        ((), some) => Err(format!("{some} of 10 were moved")),
    };
    eventually(PATIENCE, is_over)?;
    // One that the other server refuses, because its pull has no frame yet, comes back and stays.
    eventually(PATIENCE, || {
        match (crowd.rejoin(), viewers(&a) + viewers(&b)) {
            ((), 10) => Ok(()),
            ((), some) => Err(format!("{some} viewers of 10")),
        }
    })?;
    let redirected = a.metric("glassline_cluster_viewers_redirected_total")?;
    match (redirected as u64, moved()? as u64) {
        (1..=4, 4) => Ok(()),
        counts => Err(format!("{counts:?} were redirected and moved").into()),
    }
}
