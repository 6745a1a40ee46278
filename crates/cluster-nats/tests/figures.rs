//! What a claim and a beat cost: `cargo test -p glassline-cluster-nats --test tests -- --ignored
//! --nocapture figures`.

use std::time::{Duration, Instant};

use bytes::Bytes;
use glassline_cluster::engine::Call;
use glassline_cluster_nats::EngineEvent;
use libtest_mimic::Failed;

use crate::node::{Node, options};
use crate::records::text;
use crate::server::{Cluster, Server};

const CLAIMS: usize = 1_000;

/// Beats that are sent before the ones that came back are read.
const BURST: u64 = 200;

async fn run_all() -> Result<(), String> {
    let alone = Server::alone("")?;
    measure("one server", &[alone.url()]).await?;
    drop(alone);
    let cluster = Cluster::start("")?;
    measure("three servers, R3", &cluster.urls()).await?;
    drop(cluster);
    let cluster = Cluster::start(", sync_interval: always")?;
    measure("three servers, R3, sync_interval: always", &cluster.urls()).await
}

pub(crate) fn run() -> Result<(), Failed> {
    crate::node::run(run_all())
}

async fn measure(what: &str, urls: &[String]) -> Result<(), String> {
    let mut node = Node::connect(options(urls, "a")).await?;
    let mut claims = Vec::new();
    for number in 0..CLAIMS {
        let began = Instant::now();
        let name = format!("claim {number}");
        node.put(&name, &"x".repeat(160), None)
            .await
            .map_err(text)?;
        claims.push(began.elapsed());
    }
    claims.sort();
    let at = |share: f64| claims[(share * (CLAIMS - 1) as f64) as usize];
    let began = Instant::now();
    let mut heard = 0;
    while began.elapsed() < Duration::from_secs(3) {
        for _ in 0..BURST {
            let payload = Bytes::from_static(&[b'x'; 120]);
            node.begin(Call::Beat {
                payload,
                is_far: false,
            });
        }
        let mut left = 2 * BURST;
        while left > 0 {
            match node.events.next().await {
                Some(EngineEvent::Answer(answer)) => {
                    answer.result.map_err(text)?;
                }
                Some(EngineEvent::Incoming(_)) => heard += 1,
                None => return Err("the engine stopped".to_owned()),
            }
            left -= 1;
        }
    }
    let rate = f64::from(heard) / began.elapsed().as_secs_f64();
    println!(
        "{what}: claim p50 {:?}, p99 {:?}; {rate:.0} beats/s sent and heard",
        at(0.5),
        at(0.99)
    );
    Ok(())
}
