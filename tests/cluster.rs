//! Servers that agree through NATS which of them has a stream: real processes, one `nats-server`.

use std::time::{Duration, Instant};

use glassline_client::viewers::{Endpoint, Join, Options, Pool, State, Viewer};
use libtest_mimic::Failed;
use serde_json::Value;

use crate::http;
use crate::nats::Nats;
use crate::peers::{Peer, Test};
use crate::process::{PATIENCE, Running, eventually};
use crate::server::{Server, glassline, run_to_end};

pub(crate) const TESTS: &[Test] = &[
    Test::of(&a_stream_of_one_server_is_watched_at_another_and_its_name_is_taken_there)
        .needs(&[Peer::Nats]),
    Test::of(&a_viewer_elsewhere_who_comes_before_the_first_frame_waits_for_it)
        .needs(&[Peer::Nats]),
    Test::of(&a_publisher_whose_server_was_killed_goes_on_at_another_one).needs(&[Peer::Nats]),
    Test::of(&without_nats_streams_go_on_and_new_ones_are_announced_later).needs(&[Peer::Nats]),
    Test::of(&a_camera_of_two_servers_is_connected_once_and_taken_over).needs(&[Peer::Nats]),
    Test::of(&a_stream_that_is_awaited_here_may_be_published_elsewhere).needs(&[Peer::Nats]),
    Test::of(&a_drained_server_gives_its_streams_up_and_may_come_back).needs(&[Peer::Nats]),
    Test::of(&a_server_that_is_told_to_end_leaves_the_cluster_first).needs(&[Peer::Nats]),
];

/// Longer than a test should take: a server that waits for nobody is gone long before.
const DRAIN_S: u32 = 300;

/// A server of the cluster, with more configuration.
fn node(name: &str, nats: &Nats, more: &str) -> Result<Server, String> {
    let yaml = format!(
        "cluster: {{name: {name}, secret: shared-by-all, nats: '{}', linger_s: 2, drain_s: {DRAIN_S}}}\n{more}",
        nats.url()
    );
    Server::configured(&yaml, &[])
}

/// Servers of the cluster that are connected to NATS.
fn nodes<const N: usize>(names: [&str; N], nats: &Nats) -> Result<[Server; N], String> {
    let mut started = Vec::new();
    for name in names {
        started.push(node(name, nats, "")?);
    }
    wait_for_each_other(&started.iter().collect::<Vec<_>>())?;
    started
        .try_into()
        .map_err(|_| "as many as names".to_owned())
}

pub(crate) fn cluster(server: &Server) -> Result<Value, String> {
    http::get_json(&server.admin_url("/api/v1/cluster"))
}

pub(crate) fn wait_for_engine(server: &Server, state: &str) -> Result<(), String> {
    eventually(PATIENCE, || {
        let told = cluster(server)?;
        match told["engine"]["state"] == state {
            true => Ok(()),
            false => Err(format!("not {state}: {told}")),
        }
    })
}

/// Waits until each server hears all the others.
pub(crate) fn wait_for_each_other(servers: &[&Server]) -> Result<(), String> {
    servers
        .iter()
        .try_for_each(|server| wait_for_serving(server, servers.len()))
}

/// Waits until `server` hears that `count` servers serve, with itself.
pub(crate) fn wait_for_serving(server: &Server, count: usize) -> Result<(), String> {
    eventually(PATIENCE, || {
        let told = cluster(server)?;
        let nodes = told["nodes"].as_array().into_iter().flatten();
        match nodes.filter(|it| it["state"] == "serving").count() == count {
            true => Ok(()),
            false => Err(format!("not {count}: {told}")),
        }
    })
}

/// Waits until `server` knows that `owner` has the stream.
pub(crate) fn wait_for_owner(server: &Server, stream: &str, owner: &str) -> Result<(), String> {
    eventually(PATIENCE, || {
        let told = cluster(server)?;
        let streams = told["streams"].as_array().into_iter().flatten();
        let mut of_name = streams.filter(|it| it["name"] == stream);
        match of_name.any(|it| it["owner"] == owner) {
            true => Ok(()),
            false => Err(format!("not at {owner}: {told}")),
        }
    })
}

/// Publishes the built-in clip.
pub(crate) fn publish(server: &Server, path: &str) -> Result<Running, String> {
    let command = glassline(&["publish", "demo", &server.url(path), "--log", "warn"]);
    Running::start("publish", command)
}

/// A viewer, and what it has seen so far.
pub(crate) struct Watching {
    pub(crate) pool: Pool,
    at: String,
}

impl Watching {
    /// Joins by WHEP.
    pub(crate) fn join(server: &Server, stream: &str) -> Result<Self, String> {
        Self::join_with(server, stream, None)
    }

    /// Joins by WHEP with a token.
    pub(crate) fn join_with(
        server: &Server,
        stream: &str,
        token: Option<&str>,
    ) -> Result<Self, String> {
        Self::join_at(server.url(&format!("/{stream}/whep")), token)
    }

    /// Joins at an address, with a token.
    pub(crate) fn join_at(at: String, token: Option<&str>) -> Result<Self, String> {
        let options = Options {
            token: token.map(str::to_owned),
            ..Options::default()
        };
        let pool = Pool::start(options).map_err(|error| error.to_string())?;
        let endpoint = Endpoint::parse(&at).map_err(|error| error.to_string())?;
        pool.join(Join::new(endpoint));
        Ok(Self { pool, at })
    }

    /// Waits until the viewer plays and has received enough.
    pub(crate) fn reaches(&self, is_enough: impl Fn(&Viewer) -> bool) -> Result<(), String> {
        eventually(PATIENCE, || {
            let viewers = self.pool.snapshot();
            let viewer = viewers.first().ok_or("no viewer")?;
            match viewer.state == State::Playing && is_enough(viewer) {
                true => Ok(()),
                false => Err(format!("{}: {viewer:?}", self.at)),
            }
        })
    }

    pub(crate) fn frames(&self) -> Result<u64, String> {
        let viewers = self.pool.snapshot();
        let viewer = viewers.first().ok_or("no viewer")?;
        match viewer.state {
            State::Ended => Err(format!("{}: {:?}", self.at, viewer.failure)),
            _ => Ok(viewer.frames),
        }
    }

    /// Waits for `count` further frames.
    pub(crate) fn sees(&self, count: u64) -> Result<(), String> {
        let before = self.frames()?;
        eventually(PATIENCE, || match self.frames()? {
            frames if frames >= before + count => Ok(()),
            frames => Err(format!("{}: {frames} frames, {before} before", self.at)),
        })
    }
}

fn a_stream_of_one_server_is_watched_at_another_and_its_name_is_taken_there() -> Result<(), Failed>
{
    let nats = Nats::start()?;
    let [a, b] = nodes(["a", "b"], &nats)?;
    let mut first = publish(&a, "/cam/whip")?;
    a.wait_for_state("cam", "live")?;
    wait_for_owner(&b, "cam", "a")?;
    let watching = Watching::join(&b, "cam")?;
    watching.sees(60)?;
    // By RTSP, too: the stream is pulled once for both.
    let by_rtsp = Watching::join_at(b.rtsp_url("cam"), None)?;
    by_rtsp.reaches(|viewer| viewer.frames >= 30)?;
    let pulls = b.metric("glassline_cluster_pulls_total")?;
    if (pulls - 1.0).abs() > f64::EPSILON {
        return Err(format!("{pulls} pulls").into());
    }
    // Each server knows of both how much they have, also of itself.
    for server in [&a, &b] {
        eventually(PATIENCE, || knows_loads(server))?;
    }
    // The name is taken on both servers, and the answer comes soon.
    for server in [&a, &b] {
        let began = Instant::now();
        let url = server.url("/cam/whip");
        let (status, printed) = run_to_end(&["publish", "demo", &url, "--log", "warn"])?;
        let took = began.elapsed();
        if status.success() || !printed.contains("409") || took > Duration::from_secs(15) {
            return Err(format!("{status} after {took:?}: {printed}").into());
        }
    }
    // Unless the second one wants to replace the first.
    let second = publish(&b, "/cam/whip?override")?;
    wait_for_owner(&a, "cam", "b")?;
    first.wait(PATIENCE)?;
    watching.sees(60)?;
    let back = Watching::join(&a, "cam")?;
    back.sees(30)?;
    let (status, printed) = run_to_end(&["cluster", "status", "--admin", &a.admin_url("")])?;
    let lines: Vec<&str> = printed.lines().collect();
    let has = |words: &[&str]| {
        lines
            .iter()
            .any(|line| words.iter().all(|it| line.contains(it)))
    };
    if !status.success() || !has(&["stream", "cam", "at b"]) || !has(&["pull", "cam", "from b"]) {
        return Err(format!("{status}: {printed}").into());
    }
    drop(second);
    Ok(())
}

fn a_viewer_elsewhere_who_comes_before_the_first_frame_waits_for_it() -> Result<(), Failed> {
    let nats = Nats::start()?;
    let [first, second] = nodes(["a", "b"], &nats)?;
    for name in ["cam1", "cam2", "cam3"] {
        let publisher = publish(&first, &format!("/{name}/whip"))?;
        // The name is known as soon as the publisher has it, a quarter of a second before its media.
        wait_for_owner(&second, name, "a")?;
        let watching = Watching::join(&second, name)?;
        watching.sees(10)?;
        drop((watching, publisher));
    }
    let pulls = second.metric("glassline_cluster_pulls_total")?;
    match pulls {
        3.0 => Ok(()),
        _ => Err(format!("{pulls} pulls of three streams").into()),
    }
}

/// Whether `server` knows that `a` has claimed a stream, and that `b` serves one viewer of WHEP and one
/// of RTSP.
fn knows_loads(server: &Server) -> Result<(), String> {
    let told = http::get_json(&server.admin_url("/api/v1/cluster/nodes"))?;
    let number = |node: usize, key: &str| told["nodes"][node][key].as_u64();
    let loads = [0, 1].map(|node| ["owned", "viewers", "streams"].map(|key| number(node, key)));
    let [[owned_a, _, streams_a], [owned_b, viewers_b, streams_b]] = loads;
    let (owned, viewers) = ((owned_a, owned_b), viewers_b);
    match owned == (Some(1), Some(0)) && viewers == Some(2) && streams_a >= Some(1) {
        true if streams_b >= Some(1) && told.get("streams").is_none() => Ok(()),
        _ => Err(told.to_string()),
    }
}

fn a_publisher_whose_server_was_killed_goes_on_at_another_one() -> Result<(), Failed> {
    let nats = Nats::start()?;
    let [a, b, c] = nodes(["a", "b", "c"], &nats)?;
    let first = publish(&a, "/cam/whip")?;
    a.wait_for_state("cam", "live")?;
    wait_for_owner(&c, "cam", "a")?;
    let watching = Watching::join(&c, "cam")?;
    watching.sees(60)?;
    a.signal("-KILL")?;
    drop(first);
    let _second = publish(&b, "/cam/whip")?;
    wait_for_owner(&c, "cam", "b")?;
    // The viewer has stayed connected.
    watching.sees(60)?;
    Ok(())
}

fn without_nats_streams_go_on_and_new_ones_are_announced_later() -> Result<(), Failed> {
    let mut nats = Nats::start()?;
    let [a, b] = nodes(["a", "b"], &nats)?;
    let _first = publish(&a, "/cam/whip")?;
    a.wait_for_state("cam", "live")?;
    wait_for_owner(&b, "cam", "a")?;
    let watching = Watching::join(&b, "cam")?;
    watching.sees(60)?;
    let epoch = epoch_of(&b, "cam")?;
    nats.kill();
    wait_for_engine(&a, "away")?;
    wait_for_engine(&b, "away")?;
    watching.sees(150)?;
    for (path, text) in [("/healthz", "ok"), ("/readyz", "NATS is away")] {
        let answer = http::get(&b.admin_url(path))?;
        if answer.status != 200 || !answer.body.contains(text) {
            return Err(format!("{path}: {answer:?}").into());
        }
    }
    // A new publisher is served by its server.
    let _second = publish(&a, "/door/whip")?;
    a.wait_for_state("door", "live")?;
    let here = Watching::join(&a, "door")?;
    here.sees(30)?;
    nats.start_again()?;
    wait_for_engine(&b, "connected")?;
    wait_for_owner(&b, "door", "a")?;
    let there = Watching::join(&b, "door")?;
    there.sees(30)?;
    watching.sees(60)?;
    let owned = cluster(&b)?;
    let superseded = a.metric("glassline_cluster_publishers_superseded_total")?;
    if superseded > 0.0 || epoch_of(&b, "cam")? != epoch {
        return Err(format!("streams changed hands: {owned}").into());
    }
    Ok(())
}

/// Returns the number of the claim under which a stream is published, as `server` knows it.
fn epoch_of(server: &Server, stream: &str) -> Result<u64, String> {
    let told = cluster(server)?;
    let streams = told["streams"].as_array().into_iter().flatten();
    let mut of_name = streams.filter(|it| it["name"] == stream);
    let epoch = of_name.find_map(|it| it["epoch"].as_u64());
    epoch.ok_or_else(|| format!("no epoch of {stream}: {told}"))
}

fn a_camera_of_two_servers_is_connected_once_and_taken_over() -> Result<(), Failed> {
    let camera = Server::demo()?;
    let nats = Nats::start()?;
    let sources = format!("sources: {{hall: '{}'}}\n", camera.rtsp_url("demo"));
    let [a, b] = [node("a", &nats, &sources)?, node("b", &nats, &sources)?];
    let connected = || camera.rtsp_clients().map(|clients| clients.len());
    eventually(PATIENCE, || match connected()? {
        1 => Ok(()),
        other => Err(format!("{other} clients of the camera")),
    })?;
    let owner = eventually(PATIENCE, || {
        let told = cluster(&a)?;
        let owner = told["streams"][0]["owner"].as_str().map(str::to_owned);
        owner.ok_or_else(|| format!("nobody has the camera: {told}"))
    })?;
    let (owner, other, other_name) = match owner.as_str() {
        "a" => (&a, &b, "b"),
        _ => (&b, &a, "a"),
    };
    let watching = Watching::join(other, "hall")?;
    watching.sees(60)?;
    if connected()? != 1 {
        return Err(format!("{} clients of the camera", connected()?).into());
    }
    owner.signal("-KILL")?;
    wait_for_owner(other, "hall", other_name)?;
    watching.sees(60)?;
    Ok(())
}

fn a_stream_that_is_awaited_here_may_be_published_elsewhere() -> Result<(), Failed> {
    let nats = Nats::start()?;
    let awaited = "sources: {cam: publisher}\n";
    let [a, b] = [node("a", &nats, "")?, node("b", &nats, awaited)?];
    wait_for_engine(&b, "connected")?;
    let answer = http::get(&b.url("/cam/snapshot.jpg"))?;
    if answer.status == 200 {
        return Err("nobody publishes it".into());
    }
    let _publisher = publish(&a, "/cam/whip")?;
    wait_for_owner(&b, "cam", "a")?;
    let watching = Watching::join(&b, "cam")?;
    watching.sees(30)?;
    Ok(())
}

fn a_drained_server_gives_its_streams_up_and_may_come_back() -> Result<(), Failed> {
    let nats = Nats::start()?;
    let [a, b] = nodes(["a", "b"], &nats)?;
    let _publisher = publish(&a, "/cam/whip")?;
    a.wait_for_state("cam", "live")?;
    wait_for_owner(&b, "cam", "a")?;
    let admin = a.admin_url("");
    let drain = ["cluster", "drain", "--within", "600", "--admin", &admin];
    let resume = ["cluster", "resume", "--admin", &admin];
    let (status, printed) = run_to_end(&drain)?;
    let ready = http::get(&a.admin_url("/readyz"))?;
    if !status.success() || ready.status != 503 {
        return Err(format!("{printed}: {ready:?}").into());
    }
    let url = a.url("/door/whip");
    let (refused, printed) = run_to_end(&["publish", "demo", &url, "--log", "warn"])?;
    if refused.success() || !printed.contains("503") {
        return Err(printed.into());
    }
    run_to_end(&resume)?;
    let ready = http::get(&a.admin_url("/readyz"))?;
    if ready.status != 200 {
        return Err(format!("{ready:?}").into());
    }
    let _door = publish(&a, "/door/whip")?;
    wait_for_owner(&b, "door", "a")?;
    // A server that stops leaves no claim behind. Ctrl-C waits for nobody.
    a.signal("-INT")?;
    eventually(PATIENCE, || {
        let told = cluster(&b)?;
        match told["streams"].as_array().map(Vec::len) {
            Some(0) => Ok(()),
            _ => Err(told.to_string()),
        }
    })?;
    Ok(())
}

fn wait_until_ready(server: &Server, status: u16) -> Result<(), String> {
    eventually(PATIENCE, || {
        let ready = http::get(&server.admin_url("/readyz"))?;
        match ready.status == status {
            true => Ok(()),
            false => Err(format!("{ready:?}")),
        }
    })
}

fn a_server_that_is_told_to_end_leaves_the_cluster_first() -> Result<(), Failed> {
    let nats = Nats::start()?;
    let [mut a, mut b, mut c] = nodes(["a", "b", "c"], &nats)?;
    let mut publisher = publish(&a, "/cam/whip")?;
    let _other = publish(&b, "/door/whip")?;
    for server in [&a, &c] {
        wait_for_owner(server, "door", "b")?;
        wait_for_owner(server, "cam", "a")?;
    }
    // While somebody publishes here, an operator may take the end back.
    a.signal("-TERM")?;
    wait_until_ready(&a, 503)?;
    run_to_end(&["cluster", "resume", "--admin", &a.admin_url("")])?;
    wait_until_ready(&a, 200)?;
    publisher.terminate()?;
    publisher.wait(PATIENCE)?;
    let watching = Watching::join(&a, "door")?;
    watching.sees(30)?;
    // The viewer is sent away, and the server ends long before its deadline.
    let status = a.stop(PATIENCE)?;
    let printed = a.printed();
    if status.code() != Some(0) || !printed.contains("viewers are sent to other servers") {
        return Err(format!("{status}: {printed}").into());
    }
    // A second signal ends the wait for a publisher.
    b.signal("-TERM")?;
    wait_until_ready(&b, 503)?;
    let status = b.stop(PATIENCE)?;
    if status.code() != Some(1) {
        return Err(format!("{status}: {}", b.printed()).into());
    }
    // Nobody is left to take over, so the last server does not wait.
    let _last = publish(&c, "/last/whip")?;
    c.wait_for_state("last", "live")?;
    wait_for_serving(&c, 1)?;
    let status = c.stop(PATIENCE)?;
    match status.code() {
        Some(0) => Ok(()),
        _ => Err(format!("{status}: {}", c.printed()).into()),
    }
}
