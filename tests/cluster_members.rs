//! Servers that may not be members of a cluster, and members whose configuration changes.

use std::time::Duration;

use libtest_mimic::Failed;

use crate::cluster::{Watching, publish, wait_for_engine, wait_for_owner};
use crate::http;
use crate::nats::Nats;
use crate::peers::{Peer, Test};
use crate::ports::free_ports;
use crate::process::{PATIENCE, eventually};
use crate::server::{Server, run_to_end, unique, write_file};

pub(crate) const TESTS: &[Test] = &[
    Test::of(&a_second_server_of_one_name_ends_and_says_why).needs(&[Peer::Nats]),
    Test::of(&a_server_with_another_secret_ends_and_says_why).needs(&[Peer::Nats]),
    Test::of(&a_source_that_is_pulled_can_be_added_by_a_reload).needs(&[Peer::Nats]),
];

fn yaml(name: &str, secret: &str, nats: &Nats, more: &str) -> String {
    let url = nats.url();
    format!("cluster: {{name: {name}, secret: {secret}, nats: '{url}', linger_s: 2}}\n{more}")
}

/// Starts a server that must end by itself, with `reason` in its log.
fn ends(config: &str, reason: &str) -> Result<(), String> {
    let path = write_file(&unique("member.yml"), config.as_bytes())?;
    let [http, media, admin, rtsp] = free_ports()?.map(|port: u16| port.to_string());
    let (status, printed) = run_to_end(&[
        "serve", &path, "--http", &http, "--media", &media, "--admin", &admin, "--rtsp", &rtsp,
        "--quic", &http,
    ])?;
    match status.code() == Some(1) && printed.contains(reason) {
        true => Ok(()),
        false => Err(format!("{status}, without '{reason}':\n{printed}")),
    }
}

fn a_second_server_of_one_name_ends_and_says_why() -> Result<(), Failed> {
    let nats = Nats::start()?;
    let first = Server::configured(&yaml("a", "shared-by-all", &nats, ""), &[])?;
    wait_for_engine(&first, "connected")?;
    let _publisher = publish(&first, "/cam/whip")?;
    first.wait_for_state("cam", "live")?;
    wait_for_owner(&first, "cam", "a")?;
    let watching = Watching::join(&first, "cam")?;
    watching.sees(30)?;
    let second = yaml("a", "shared-by-all", &nats, "sources: {hall: demo}\n");
    ends(&second, "another server of the cluster is 'a'")?;
    // The first one has lost nothing.
    watching.sees(30)?;
    let superseded = first.metric("glassline_cluster_publishers_superseded_total")?;
    match superseded > 0.0 {
        true => Err("the first server lost its publisher".into()),
        false => Ok(()),
    }
}

fn a_server_with_another_secret_ends_and_says_why() -> Result<(), Failed> {
    let nats = Nats::start()?;
    let first = Server::configured(&yaml("a", "shared-by-all", &nats, ""), &[])?;
    // It has sent many heartbeats: whoever has another secret then is clearly the newcomer.
    wait_for_engine(&first, "connected")?;
    eventually(PATIENCE, || {
        let server = http::get_json(&first.admin_url("/api/v1/server"))?;
        match server["uptime_s"].as_f64().is_some_and(|it| it > 12.0) {
            true => Ok(()),
            false => Err(format!("it has just begun: {server}")),
        }
    })?;
    let second = yaml("b", "known-to-none", &nats, "sources: {hall: demo}\n");
    ends(&second, "have another `cluster.secret`")?;
    wait_for_engine(&first, "connected")?;
    Ok(())
}

fn a_source_that_is_pulled_can_be_added_by_a_reload() -> Result<(), Failed> {
    let nats = Nats::start()?;
    let a = Server::configured(&yaml("a", "shared-by-all", &nats, ""), &[])?;
    let path = write_file(
        &unique("reloaded.yml"),
        yaml("b", "shared-by-all", &nats, "").as_bytes(),
    )?;
    let b = Server::of_file(&path)?;
    let _door = publish(&a, "/door/whip")?;
    a.wait_for_state("door", "live")?;
    wait_for_owner(&b, "door", "a")?;
    let watching = Watching::join(&b, "door")?;
    watching.sees(30)?;
    let gate = publish(&b, "/gate/whip")?;
    b.wait_for_state("gate", "live")?;

    // One source is pulled, one is new, and one has a publisher here.
    let sources = "sources: {door: demo, yard: demo, gate: demo}\n";
    let changed = yaml("b", "shared-by-all", &nats, sources);
    std::fs::write(&path, changed).map_err(|error| error.to_string())?;
    b.hang_up()?;
    wait_for_owner(&b, "yard", "b")?;
    b.wait_for_state("yard", "live")?;
    watching.sees(30)?;
    drop(gate);
    eventually(PATIENCE, || match b.printed().contains("added gate") {
        true => Ok(()),
        false => Err("the source does not take its turn".to_owned()),
    })?;
    b.wait_for_state("gate", "live")?;

    // The publisher's server is lost: the source takes its turn.
    a.signal("-KILL")?;
    wait_for_owner(&b, "door", "b")?;
    eventually(Duration::from_secs(30), || {
        let live = b.stream("door")?;
        match live["state"] == "live" {
            true => Ok(()),
            false => Err(live.to_string()),
        }
    })?;
    Ok(())
}
