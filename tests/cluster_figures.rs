//! What viewers lose when a part of a cluster fails: three servers of NATS, three of Glassline.
//!
//! `cargo test --test tests -- --ignored --nocapture --test-threads 1 cluster::figures` runs all of
//! them, with real time and for minutes, and prints a line for each.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use glassline_client::viewers::{Endpoint, Id, Join, Options, Pool, State};
use libtest_mimic::{Failed, Trial};

use crate::cluster::{Watching, cluster, publish, wait_for_engine, wait_for_owner};
use crate::cluster_fleet::Fleet;
use crate::figure;
use crate::http;
use crate::nats::Nats;
use crate::process::{PATIENCE, eventually};
use crate::server::Server;

/// Trials of an event whose figure is a quantile.
const TRIALS: usize = 10;

/// Names that two publishers want at the same time.
const NAMES: usize = 1_000;

/// Viewers of a server that drains.
const VIEWERS: usize = 200;

/// Between two looks at what takes a part of a second.
const LOOK: Duration = Duration::from_millis(10);

/// Measures one event; returns its figures for people.
type Measure = fn() -> Result<String, String>;

pub(crate) fn trials() -> Vec<Trial> {
    let figures: [(&'static str, Measure); 10] = [
        ("owner_killed", owner_killed),
        ("camera_owner_killed", camera_owner_killed),
        ("nats_away_for_30_s", nats_away),
        ("nats_leader_killed", nats_leader_killed),
        ("bucket_deleted", bucket_deleted),
        ("names_raced", names_raced),
        ("drain_with_viewers", drain_with_viewers),
        ("camera_handed_over", camera_handed_over),
        ("owner_stopped_and_continued", owner_stopped),
        ("relay_killed", relay_killed),
    ];
    let trial = |(name, run): (&'static str, Measure)| {
        let measured = move || -> Result<(), Failed> {
            let machine = glassline_lab::machine::describe();
            let load = machine.load_1m.unwrap_or_default();
            let found = run()?;
            println!("{name}: {found} (load {load:.1} before)");
            Ok(())
        };
        Trial::test(format!("cluster::figures::{name}"), measured).with_ignored_flag(true)
    };
    figures.into_iter().map(trial).collect()
}

/// Longest time between two frames of a viewer, from its first frame on.
fn longest_gap(watching: &Watching) -> Result<Duration, String> {
    let viewers = watching.pool.snapshot();
    let viewer = viewers.first().ok_or("no viewer")?;
    match viewer.state {
        State::Ended => Err(format!("the viewer ended: {:?}", viewer.failure)),
        _ => Ok(viewer.gaps.summary().max),
    }
}

/// Prints the figures of `name`, and returns them for people.
fn quantiles(name: &str, mut values: Vec<Duration>) -> String {
    values.sort();
    let at = |share: f64| {
        let rank = (values.len() as f64 * share).ceil() as usize;
        let value = values.get(rank.saturating_sub(1));
        value.copied().unwrap_or_default().as_secs_f64()
    };
    let (p50, p99, max) = (at(0.5), at(0.99), at(1.0));
    figure::print(&format!("{name}, p50"), p50, "s", "less", None);
    figure::print(&format!("{name}, longest"), max, "s", "less", None);
    let count = values.len();
    format!("p50 {p50:.2}, p99 {p99:.2}, max {max:.2} s of {count}")
}

/// Looks every 10 ms until `look` says so; returns the time it took.
fn until(mut look: impl FnMut() -> Result<bool, String>) -> Result<Duration, String> {
    let began = Instant::now();
    while !look()? {
        if began.elapsed() > PATIENCE {
            return Err("it did not happen within a minute".to_owned());
        }
        thread::sleep(LOOK);
    }
    Ok(began.elapsed())
}

fn owner_of(node: &Server, stream: &str) -> Result<Option<String>, String> {
    let told = cluster(node)?;
    let mut streams = told["streams"].as_array().into_iter().flatten();
    let of_name = streams.find(|it| it["name"] == stream);
    Ok(of_name.and_then(|it| it["owner"].as_str().map(str::to_owned)))
}

fn owner_killed() -> Result<String, String> {
    let mut gaps = Vec::new();
    for _ in 0..TRIALS {
        let fleet = Fleet::start("")?;
        let first = publish(&fleet.nodes[0], "/cam/whip")?;
        let watching = fleet.watched("cam")?;
        fleet.nodes[0].signal("-KILL")?;
        drop(first);
        let second = publish(&fleet.nodes[1], "/cam/whip")?;
        wait_for_owner(&fleet.nodes[2], "cam", "b")?;
        watching.sees(60)?;
        gaps.push(longest_gap(&watching)?);
        drop(second);
    }
    Ok(format!(
        "gap with the publisher back at once: {}",
        quantiles("owner killed: gap", gaps)
    ))
}

/// The node in the middle of a chain of three is killed.
fn relay_killed() -> Result<String, String> {
    let mut gaps = Vec::new();
    for _ in 0..TRIALS {
        let fleet = Fleet::with(", pulls_per_stream: 1", "")?;
        let _cam = publish(&fleet.nodes[0], "/cam/whip")?;
        wait_for_owner(&fleet.nodes[1], "cam", "a")?;
        let relayed = Watching::join(&fleet.nodes[1], "cam")?;
        relayed.sees(60)?;
        let watching = fleet.watched("cam")?;
        let told = cluster(&fleet.nodes[2])?;
        if told["pulls"][0]["from"] != "b" {
            return Err(format!("the third node pulls from another one: {told}"));
        }
        fleet.nodes[1].signal("-KILL")?;
        until(|| Ok(cluster(&fleet.nodes[2])?["pulls"][0]["from"] == "a"))?;
        watching.sees(60)?;
        gaps.push(longest_gap(&watching)?);
    }
    Ok(format!("gap: {}", quantiles("relay killed: gap", gaps)))
}

/// Three nodes that have one camera, and the indices of the one that is connected and another one.
fn with_camera(camera: &Server) -> Result<(Fleet, usize, usize), String> {
    let source = camera.rtsp_url("demo");
    let fleet = Fleet::start(&format!("sources: {{hall: '{source}'}}\n"))?;
    let owner = eventually(PATIENCE, || {
        owner_of(&fleet.nodes[0], "hall")?.ok_or_else(|| "nobody has the camera".to_owned())
    })?;
    let owner = ["a", "b", "c"].iter().position(|it| *it == owner);
    let owner = owner.ok_or("an unknown owner")?;
    Ok((fleet, owner, (owner + 1) % 3))
}

fn camera_owner_killed() -> Result<String, String> {
    let (mut gaps, mut dialled, mut most) = (Vec::new(), Vec::new(), 0);
    for _ in 0..TRIALS {
        let camera = Server::demo()?;
        let (fleet, owner, other) = with_camera(&camera)?;
        let watching = Watching::join(&fleet.nodes[other], "hall")?;
        watching.sees(60)?;
        fleet.nodes[owner].signal("-KILL")?;
        // The killed one's connection ends with its process.
        let is_gone = || Ok(camera.rtsp_clients()?.is_empty());
        let gone = until(is_gone)?;
        let again = until(|| {
            let clients = camera.rtsp_clients()?.len();
            most = most.max(clients);
            Ok(clients > 0)
        })?;
        dialled.push(gone + again);
        watching.sees(90)?;
        most = most.max(camera.rtsp_clients()?.len());
        gaps.push(longest_gap(&watching)?);
    }
    Ok(format!(
        "dialled by another node after {}; gap {}; most connections at a time {most}",
        quantiles("owner of a camera killed: dialled again", dialled),
        quantiles("owner of a camera killed: gap", gaps)
    ))
}

/// Watches while `happen` runs, and returns the longest gap, pulls that began, and streams that
/// changed hands.
fn undisturbed(
    fleet: &mut Fleet,
    happen: impl FnOnce(&mut Fleet) -> Result<String, String>,
) -> Result<String, String> {
    let _publisher = publish(&fleet.nodes[0], "/cam/whip")?;
    let watching = fleet.watched("cam")?;
    let pulls = fleet.nodes[2].metric("glassline_cluster_pulls_total")?;
    let said = happen(fleet)?;
    watching.sees(60)?;
    let pulled = fleet.nodes[2].metric("glassline_cluster_pulls_total")? - pulls;
    let mut superseded = 0.0;
    for node in &fleet.nodes {
        superseded += node.metric("glassline_cluster_publishers_superseded_total")?;
    }
    let gap = longest_gap(&watching)?;
    Ok(format!(
        "{said}longest gap {:.2} s, {pulled} new pulls, {superseded} publishers sent away",
        gap.as_secs_f64()
    ))
}

/// Publishes a stream that nobody had before; returns the time until its node serves it.
fn new_publisher(node: &Server, stream: &str) -> Result<Duration, String> {
    let began = Instant::now();
    let publisher = publish(node, &format!("/{stream}/whip"))?;
    node.wait_for_state(stream, "live")?;
    let took = began.elapsed();
    drop(publisher);
    Ok(took)
}

fn nats_away() -> Result<String, String> {
    let mut fleet = Fleet::start("")?;
    undisturbed(&mut fleet, |fleet| {
        fleet.nats.iter_mut().for_each(Nats::kill);
        wait_for_engine(&fleet.nodes[1], "away")?;
        let took = new_publisher(&fleet.nodes[1], "door")?;
        thread::sleep(Duration::from_secs(30));
        for nats in &mut fleet.nats {
            nats.start_again()?;
        }
        for node in &fleet.nodes {
            wait_for_engine(node, "connected")?;
        }
        // What was wrongly believed would show now.
        thread::sleep(Duration::from_secs(15));
        Ok(format!(
            "new publisher live after {:.2} s; ",
            took.as_secs_f64()
        ))
    })
}

/// The server of NATS that leads the copies of the streams' records.
fn leader(nats: &[Nats; 3]) -> Result<usize, String> {
    let info = nats[0].ask("$JS.API.STREAM.INFO.KV_glassline_streams", "")?;
    let name = info["cluster"]["leader"].as_str().ok_or("no leader")?;
    let number = name.strip_prefix("nats-").and_then(|it| it.parse().ok());
    number.ok_or_else(|| format!("leader {name}"))
}

fn nats_leader_killed() -> Result<String, String> {
    let mut fleet = Fleet::start("")?;
    undisturbed(&mut fleet, |fleet| {
        let leader = leader(&fleet.nats)?;
        fleet.nats[leader].kill();
        let took = new_publisher(&fleet.nodes[1], "door")?;
        thread::sleep(Duration::from_secs(20));
        Ok(format!(
            "new publisher live after {:.2} s; ",
            took.as_secs_f64()
        ))
    })
}

fn bucket_deleted() -> Result<String, String> {
    let mut fleet = Fleet::start("")?;
    undisturbed(&mut fleet, |fleet| {
        let nats = &fleet.nats[0];
        let began = Instant::now();
        nats.ask("$JS.API.STREAM.DELETE.KV_glassline_streams", "")?;
        until(|| {
            let wanted = "{\"last_by_subj\":\"$KV.glassline_streams.s.cam\"}";
            let found = nats.ask("$JS.API.STREAM.MSG.GET.KV_glassline_streams", wanted);
            // Without the bucket there is no answer.
            Ok(found.is_ok_and(|it| it["message"].is_object()))
        })?;
        let took = began.elapsed().as_secs_f64();
        Ok(format!("written back after {took:.1} s; "))
    })
}

/// Announces a stream by RTSP, which claims its name; returns the connection and the status.
fn announce(node: &Server, stream: &str) -> Result<(TcpStream, u16), String> {
    let text = |error: std::io::Error| format!("{stream}: {error}");
    let url = node.rtsp_url(stream);
    let address = url
        .trim_start_matches("rtsp://")
        .split('/')
        .next()
        .unwrap_or_default();
    let mut connection = TcpStream::connect(address).map_err(text)?;
    connection.set_read_timeout(Some(PATIENCE)).map_err(text)?;
    let sdp = "v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\nm=video 0 RTP/AVP 96\r\n\
               a=rtpmap:96 H264/90000\r\na=control:streamid=0\r\n";
    let length = sdp.len();
    write!(
        connection,
        "ANNOUNCE {url} RTSP/1.0\r\nCSeq: 1\r\nContent-Type: application/sdp\r\n\
         Content-Length: {length}\r\n\r\n{sdp}"
    )
    .map_err(text)?;
    let mut line = String::new();
    BufReader::new(&connection)
        .read_line(&mut line)
        .map_err(text)?;
    let status = line.split(' ').nth(1).and_then(|it| it.parse().ok());
    let status = status.ok_or_else(|| format!("{stream}: answered '{line}'"))?;
    Ok((connection, status))
}

fn names_raced() -> Result<String, String> {
    let fleet = Fleet::start("")?;
    let (mut slowest, mut wrong, mut wins) = (Duration::ZERO, Vec::new(), [0, 0]);
    for number in 0..NAMES {
        let name = format!("raced-{number}");
        let barrier = Barrier::new(2);
        let race = |node: &Server| {
            barrier.wait();
            let began = Instant::now();
            let answered = announce(node, &name)?;
            Ok::<_, String>((answered, began.elapsed()))
        };
        let (one, other) = thread::scope(|scope| {
            let one = scope.spawn(|| race(&fleet.nodes[0]));
            let other = race(&fleet.nodes[1]);
            (one.join(), other)
        });
        let one = one.map_err(|_| "a racer panicked")?;
        let ((_one, first), first_took) = one?;
        let ((_other, second), second_took) = other?;
        slowest = slowest.max(first_took).max(second_took);
        match (first, second) {
            (200, second) if second != 200 => wins[0] += 1,
            (first, 200) if first != 200 => wins[1] += 1,
            statuses => wrong.push((name, statuses)),
        }
    }
    match wrong.is_empty() {
        true => Ok(format!(
            "one winner for each of {NAMES} names ({} at one node, {} at the other), slowest answer \
             {:.2} s",
            wins[0],
            wins[1],
            slowest.as_secs_f64()
        )),
        false => Err(format!("{} of {NAMES} names: {wrong:?}", wrong.len())),
    }
}

/// A viewer who joins another node as soon as its session ends, as a player does behind a balancer.
struct Follower {
    id: Id,
    left: Option<Instant>,
    gap: Option<Duration>,
}

fn drain_with_viewers() -> Result<String, String> {
    let mut fleet = Fleet::start("")?;
    let _publisher = publish(&fleet.nodes[1], "/cam/whip")?;
    wait_for_owner(&fleet.nodes[0], "cam", "b")?;
    let pool = Pool::start(Options::default()).map_err(|error| error.to_string())?;
    let join = |node: &Server| -> Result<Id, String> {
        let endpoint = Endpoint::parse(&node.url("/cam/whep"));
        let endpoint = endpoint.map_err(|error| error.to_string())?;
        Ok(pool.join(Join::new(endpoint).counting()))
    };
    let mut followers = Vec::new();
    for _ in 0..VIEWERS {
        let id = join(&fleet.nodes[0])?;
        let (left, gap) = (None, None);
        followers.push(Follower { id, left, gap });
    }
    eventually(PATIENCE, || {
        let progress = pool.progress();
        let playing = progress
            .iter()
            .filter(|it| it.state == State::Playing)
            .count();
        match playing {
            VIEWERS => Ok(()),
            _ => Err(format!("{playing} viewers play")),
        }
    })?;
    let began = Instant::now();
    fleet.nodes[0].signal("-TERM")?;
    until(|| {
        let progress = pool.progress();
        for follower in followers.iter_mut().filter(|it| it.gap.is_none()) {
            let now = Instant::now();
            let seen = progress.iter().find(|it| it.id == follower.id);
            match (follower.left, seen) {
                (None, Some(seen)) if seen.state == State::Ended => {
                    pool.leave(follower.id);
                    follower.left = Some(now);
                    follower.id = join(&fleet.nodes[2])?;
                }
                (Some(left), Some(seen)) if seen.state == State::Playing => {
                    follower.gap = Some(now - left);
                }
                (Some(_), Some(seen)) if seen.state == State::Ended => {
                    return Err(format!(
                        "a viewer did not find it again: {:?}",
                        seen.failure
                    ));
                }
                _ => {}
            }
        }
        Ok(followers.iter().all(|it| it.gap.is_some()))
    })?;
    let status = fleet.nodes[0].wait(PATIENCE);
    let took = began.elapsed().as_secs_f64();
    let gaps = followers.iter().filter_map(|it| it.gap).collect();
    let status = status.map_or_else(|error| error, |status| status.to_string());
    Ok(format!(
        "{VIEWERS} viewers without media for {}; process ended after {took:.1} s ({status})",
        quantiles("drain with 200 viewers: without media", gaps)
    ))
}

fn camera_handed_over() -> Result<String, String> {
    let (mut gaps, mut here) = (Vec::new(), Vec::new());
    for _ in 0..TRIALS {
        let camera = Server::demo()?;
        let (fleet, owner, other) = with_camera(&camera)?;
        let elsewhere = Watching::join(&fleet.nodes[other], "hall")?;
        let at_owner = Watching::join(&fleet.nodes[owner], "hall")?;
        elsewhere.sees(60)?;
        at_owner.sees(60)?;
        let url = fleet.nodes[owner].admin_url("/api/v1/cluster/drain?within_s=600");
        let answer = http::request("POST", &url, &[], Vec::new())?;
        if answer.status != 200 {
            return Err(format!("{answer:?}"));
        }
        elsewhere.sees(60)?;
        gaps.push(longest_gap(&elsewhere)?);
        here.push(longest_gap(&at_owner).unwrap_or_default());
    }
    Ok(format!(
        "gap at another node {}; at the node that drains {}",
        quantiles("camera handed over: gap elsewhere", gaps),
        quantiles("camera handed over: gap at the owner", here)
    ))
}

fn owner_stopped() -> Result<String, String> {
    let (mut gaps, mut fenced) = (Vec::new(), Vec::new());
    for _ in 0..TRIALS {
        let fleet = Fleet::start("")?;
        let mut first = publish(&fleet.nodes[0], "/cam/whip")?;
        let watching = fleet.watched("cam")?;
        fleet.nodes[0].signal("-STOP")?;
        let _second = publish(&fleet.nodes[1], "/cam/whip")?;
        wait_for_owner(&fleet.nodes[2], "cam", "b")?;
        thread::sleep(Duration::from_secs(12));
        let began = Instant::now();
        fleet.nodes[0].signal("-CONT")?;
        let printed = || Ok(fleet.nodes[0].printed().contains("publisher sent away"));
        until(printed)?;
        fenced.push(began.elapsed());
        // The one that was replaced ends, or tries again and is refused.
        let _ = first.wait(Duration::from_secs(1));
        watching.sees(60)?;
        gaps.push(longest_gap(&watching)?);
        if owner_of(&fleet.nodes[0], "cam")?.as_deref() != Some("b") {
            return Err("the stopped node believes that it has the stream".to_owned());
        }
    }
    Ok(format!(
        "publisher sent away after SIGCONT: {}; gap at a third node {}",
        quantiles("owner stopped: publisher sent away", fenced),
        quantiles("owner stopped: gap", gaps)
    ))
}
