//! Servers and buckets that go away, and come back.

use std::time::Duration;

use bytes::Bytes;
use glassline_cluster::engine::{Answered, Call, CallError, Incoming, Scope};
use libtest_mimic::Failed;
use tokio::time::Instant;

use crate::Test;
use crate::node::{Node, options, run, stream};
use crate::records::text;
use crate::server::{Cluster, Server};

pub(crate) const TESTS: &[Test] = &[
    (
        "outages::the_leader_is_killed_and_the_watch_goes_on",
        leader,
    ),
    (
        "outages::all_three_servers_are_away_for_ten_seconds",
        all_three,
    ),
    ("outages::a_deleted_bucket_is_made_again", bucket),
    ("outages::a_watch_outlives_a_restart", restart),
    (
        "outages::a_node_waits_for_a_server_that_is_not_there_yet",
        late_server,
    ),
];

async fn watch(node: &mut Node) -> Result<(), String> {
    let scope = Scope::Everything;
    let answered = node.call(Call::Changes { scope }).await.map_err(text)?;
    assert_eq!(answered, Answered::Watching);
    Ok(())
}

/// Name of the server that leads the bucket of streams.
async fn leader_of(url: &str) -> Result<String, String> {
    let raw = async_nats::connect(url).await.map_err(text)?;
    let subject = "$JS.API.STREAM.INFO.KV_glassline_streams";
    let info = raw.request(subject, Bytes::from_static(b"{}")).await;
    let info = String::from_utf8_lossy(&info.map_err(text)?.payload).into_owned();
    let leader = info.split("\"leader\":\"").nth(1);
    let leader = leader.and_then(|rest| rest.split('"').next());
    leader.map(str::to_owned).ok_or(info)
}

fn leader() -> Result<(), Failed> {
    run(async {
        let mut cluster = Cluster::start("")?;
        let urls = cluster.urls();
        let mut writer = Node::connect(options(&urls, "w")).await?;
        let mut watcher = Node::connect(options(&urls, "r")).await?;
        watch(&mut watcher).await?;
        for number in 0..50 {
            let name = format!("before {number}");
            writer.put(&name, "1", None).await.map_err(text)?;
        }
        let leader = leader_of(&urls[0]).await?;
        let at = ["n0", "n1", "n2"].iter().position(|it| *it == leader);
        let at = at.ok_or_else(|| format!("no server {leader}"))?;
        cluster.0[at].kill();
        let began = Instant::now();
        writer.put_until_certain("after", "2").await;
        let away = began.elapsed();
        // Connected to the server that was killed or not: a core whose engine was away asks again.
        let told = watcher.until_changed("after", Some("2"));
        let seen = tokio::time::timeout(Duration::from_secs(20), told).await;
        if !matches!(seen, Ok(Ok(()))) {
            watch(&mut watcher).await?;
            watcher.until_changed("after", Some("2")).await?;
        }
        println!("leader killed: {away:?} without a write");
        // Nothing that was acknowledged is lost.
        for number in 0..50 {
            let entry = writer.get_until_certain(&format!("before {number}")).await;
            assert!(entry.is_some(), "before {number} is lost");
        }
        Ok(())
    })
}

fn all_three() -> Result<(), Failed> {
    run(async {
        let mut cluster = Cluster::start("")?;
        let mut node = Node::connect(options(&cluster.urls(), "a")).await?;
        watch(&mut node).await?;
        let mut versions = Vec::new();
        for number in 0..100 {
            let name = format!("n{number}");
            versions.push(node.put(&name, "1", None).await.map_err(text)?);
        }
        for server in &mut cluster.0 {
            server.kill();
        }
        node.until(|it| *it == Incoming::Disconnected).await?;
        let began = Instant::now();
        assert_eq!(node.put("x", "1", None).await, Err(CallError::Away));
        let payload = Bytes::from_static(b"{}");
        assert_eq!(
            node.call(Call::Beat {
                payload,
                is_far: true,
            })
            .await,
            Err(CallError::Away)
        );
        assert!(began.elapsed() < Duration::from_secs(1), "answered at once");
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert!(
            node.engine.status().failure.is_some(),
            "the operator sees why"
        );
        for server in &mut cluster.0 {
            server.start()?;
        }
        node.until(|it| *it == Incoming::Connected).await?;
        // Three servers that start elect leaders one after the other, and an answer may lack again.
        let mut status = node.engine.watch_status();
        let well = status.wait_for(|it| it.failure.is_none());
        let well = tokio::time::timeout(Duration::from_secs(30), well).await;
        assert!(well.is_ok(), "{:?}", node.engine.status().failure);
        watch(&mut node).await?;
        for (number, version) in versions.iter().enumerate() {
            let name = format!("n{number}");
            let entry = node.get_until_certain(&name).await;
            assert_eq!(entry.map(|it| it.version), Some(*version), "{name}");
        }
        node.put_until_certain("n1", "2").await;
        node.until_changed("n1", Some("2")).await?;
        Ok(())
    })
}

fn bucket() -> Result<(), Failed> {
    run(async {
        let server = Server::alone("")?;
        let mut node = Node::connect(options(&[server.url()], "a")).await?;
        watch(&mut node).await?;
        node.put("x", "1", None).await.map_err(text)?;
        node.until_changed("x", Some("1")).await?;
        let raw = async_nats::connect(server.url()).await.map_err(text)?;
        let subject = "$JS.API.STREAM.DELETE.KV_glassline_streams";
        raw.request(subject, Bytes::new()).await.map_err(text)?;
        // Whoever looks first finds out, and the core hears of it.
        let looked = node.get("x").await;
        assert_eq!(
            looked,
            Err(CallError::Away),
            "no bucket is not an empty bucket"
        );
        node.until(|it| *it == Incoming::Disconnected).await?;
        node.until(|it| *it == Incoming::Connected).await?;
        watch(&mut node).await?;
        assert_eq!(node.get("x").await, Ok(None));
        node.put("x", "1", None).await.map_err(text)?;
        node.until_changed("x", Some("1")).await?;
        // Deleted and made by somebody else meanwhile: the watch finds out by itself.
        raw.request(subject, Bytes::new()).await.map_err(text)?;
        let mut other = Node::connect(options(&[server.url()], "b")).await?;
        other.put("y", "2", None).await.map_err(text)?;
        let mut missing = vec![("y", Some("2")), ("x", None)];
        while !missing.is_empty() {
            let told = node
                .until(|it| matches!(it, Incoming::Changed { .. } | Incoming::Missing { .. }))
                .await;
            let told = told.map_err(|error| format!("{missing:?}: {error}"))?;
            let (key, entry) = match told {
                Incoming::Changed { key, entry } => (key, entry),
                // Nobody was seen to delete it.
                Incoming::Missing { key } => (key, None),
                _ => continue,
            };
            let value = entry.as_ref().map(|it| &it.value[..]);
            missing
                .retain(|(name, wanted)| key != stream(name) || value != wanted.map(str::as_bytes));
        }
        Ok(())
    })
}

fn restart() -> Result<(), Failed> {
    run(async {
        let mut server = Server::alone("")?;
        let urls = [server.url()];
        let mut node = Node::connect(options(&urls, "a")).await?;
        watch(&mut node).await?;
        for round in ["1", "2", "3"] {
            server.kill();
            node.until(|it| *it == Incoming::Disconnected).await?;
            server.start()?;
            node.until(|it| *it == Incoming::Connected).await?;
            watch(&mut node).await?;
            let mut other = Node::connect(options(&urls, "b")).await?;
            other.put_until_certain("x", round).await;
            node.until_changed("x", Some(round)).await?;
        }
        assert_eq!(node.engine.status().connects, 4);
        Ok(())
    })
}

fn late_server() -> Result<(), Failed> {
    run(async {
        let mut server = Server::alone("")?;
        server.kill();
        let mut node = Node::start(options(&[server.url()], "a"));
        assert_eq!(node.get("x").await, Err(CallError::Away), "at once");
        let began = Instant::now();
        while node.engine.status().failure.is_none() {
            assert!(began.elapsed() < Duration::from_secs(20));
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let failure = node.engine.status().failure.unwrap_or_default();
        assert!(failure.contains("nats-server runs"), "{failure}");
        server.start()?;
        node.until(|it| *it == Incoming::Connected).await?;
        node.put("x", "1", None).await.map_err(text)?;
        Ok(())
    })
}
