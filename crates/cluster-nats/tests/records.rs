//! Calls and notices while nothing fails.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use glassline_cluster::engine::{
    Answered, Call, CallError, Incoming, KeyKind, Reply, Scope, Version,
};
use glassline_cluster::{Key, NodeId, Region, StreamName};
use glassline_cluster_nats::EngineEvent;
use libtest_mimic::Failed;

use crate::Test;
use crate::node::{Node, options, run, stream};
use crate::server::{Cluster, Server};

pub(crate) const TESTS: &[Test] = &[
    (
        "records::a_record_is_written_only_over_the_version_that_is_expected",
        versions,
    ),
    ("records::a_thousand_names_have_one_winner_each", race),
    ("records::changes_are_told_in_each_scope", changes),
    ("records::beats_come_back_and_questions_are_answered", beats),
    (
        "records::a_core_that_reads_nothing_stops_nothing",
        slow_core,
    ),
    (
        "records::settings_that_endanger_records_are_named",
        settings,
    ),
];

fn versions() -> Result<(), Failed> {
    run(async {
        let server = Server::alone("")?;
        let mut node = Node::connect(options(&[server.url()], "a")).await?;
        let name = "cam.1~ä/x";
        assert_eq!(node.get(name).await, Ok(None));
        let first = node.put(name, "one", None).await.map_err(text)?;
        assert_eq!(node.put(name, "two", None).await, Err(CallError::Conflict));
        let second = node.put(name, "two", Some(first)).await.map_err(text)?;
        assert_eq!(
            node.put(name, "three", Some(first)).await,
            Err(CallError::Conflict)
        );
        assert_eq!(node.delete(name, first).await, Err(CallError::Conflict));
        let entry = node.get(name).await.map_err(text)?.ok_or("it is there")?;
        assert_eq!((&entry.value[..], entry.version), (&b"two"[..], second));
        node.delete(name, second).await.map_err(text)?;
        assert_eq!(node.get(name).await, Ok(None));
        assert_eq!(
            node.put(name, "late", Some(second)).await,
            Err(CallError::Conflict)
        );
        node.put(name, "again", None).await.map_err(text)?;

        node.put("other", "", None).await.map_err(text)?;
        let gone = node.put("gone", "x", None).await.map_err(text)?;
        node.delete("gone", gone).await.map_err(text)?;
        let kind = KeyKind::Streams;
        let Answered::Listed(mut listed) = node.call(Call::List { kind }).await.map_err(text)?
        else {
            return Err("no list".to_owned());
        };
        listed.sort_by(|one, other| one.0.cmp(&other.0));
        let listed: Vec<_> = listed
            .iter()
            .map(|(key, it)| (key.clone(), &it.value[..]))
            .collect();
        assert_eq!(
            listed,
            [(stream(name), &b"again"[..]), (stream("other"), &b""[..])]
        );
        let kind = KeyKind::Nodes;
        assert_eq!(
            node.call(Call::List { kind }).await,
            Ok(Answered::Listed(Vec::new()))
        );

        let large = "x".repeat(4_096);
        node.put("large", &large, None).await.map_err(text)?;
        let larger = node.put("larger", &"x".repeat(4_097), None).await;
        assert!(matches!(larger, Err(CallError::Refused(_))), "{larger:?}");
        assert_eq!(node.engine.status().warnings, Vec::<String>::new());
        Ok(())
    })
}

fn race() -> Result<(), Failed> {
    const NAMES: usize = 1_000;
    /// Claims of one node that are under way.
    const WINDOW: usize = 32;
    run(async {
        let cluster = Cluster::start("")?;
        let mut tasks = Vec::new();
        for name in ["a", "b", "c"] {
            let mut node = Node::connect(options(&cluster.urls(), name)).await?;
            tasks.push(tokio::spawn(async move {
                let mut outcomes = HashMap::new();
                let mut asked = HashMap::new();
                let mut next = 0;
                while outcomes.len() < NAMES {
                    while next < NAMES && asked.len() < WINDOW {
                        let call = Call::PutIf {
                            key: stream(&format!("race {next}")),
                            value: Bytes::from_static(name.as_bytes()),
                            expected: None,
                        };
                        asked.insert(node.begin(call), next);
                        next += 1;
                    }
                    if let Some(EngineEvent::Answer(answer)) = node.events.next().await {
                        let number = asked.remove(&answer.id).expect("asked once");
                        outcomes.insert(number, answer.result);
                    }
                }
                (node, outcomes)
            }));
        }
        let mut won = vec![Vec::new(); NAMES];
        let mut uncertain = 0;
        let mut nodes = Vec::new();
        for (task, name) in tasks.into_iter().zip(["a", "b", "c"]) {
            let (node, outcomes) = task.await.map_err(|error| error.to_string())?;
            nodes.push(node);
            for (number, outcome) in outcomes {
                match outcome {
                    Ok(_) => won[number].push(name),
                    Err(CallError::Conflict) => {}
                    Err(CallError::Unknown) => uncertain += 1,
                    Err(other) => return Err(format!("race {number}: {other}")),
                }
            }
        }
        let mut reader = nodes.remove(0);
        for (number, winners) in won.iter().enumerate() {
            let entry = reader.get(&format!("race {number}")).await.map_err(text)?;
            let entry = entry.ok_or_else(|| format!("race {number}: nobody has it"))?;
            let owner = String::from_utf8_lossy(&entry.value).into_owned();
            // A claim without answer in time is read again, and may be the one that holds.
            if winners.len() > 1 || winners.first().is_some_and(|it| *it != owner) {
                return Err(format!("race {number}: {winners:?} won, {owner} has it"));
            }
            if winners.is_empty() && uncertain == 0 {
                return Err(format!("race {number}: {owner} has it and was refused"));
            }
        }
        println!("three nodes, {NAMES} names: {uncertain} claims had no answer in time");
        Ok(())
    })
}

fn changes() -> Result<(), Failed> {
    run(async {
        let server = Server::alone("")?;
        let urls = [server.url()];
        let mut writer = Node::connect(options(&urls, "w")).await?;
        writer.put("early", "1", None).await.map_err(text)?;
        let mut all = Node::connect(options(&urls, "all")).await?;
        let mut some = Node::connect(options(&urls, "some")).await?;
        scope(&mut all, Scope::Everything).await?;
        all.until_changed("early", Some("1")).await?;
        let region = Region::new("eu").expect("a name");
        scope(&mut some, Scope::Region(region.clone())).await?;
        let wanted = StreamName::new("wanted").expect("a name");
        scope(&mut some, Scope::Stream(wanted.clone())).await?;

        writer.put("other", "1", None).await.map_err(text)?;
        let version = writer.put("wanted", "1", None).await.map_err(text)?;
        all.until_changed("other", Some("1")).await?;
        all.until_changed("wanted", Some("1")).await?;
        let first = some
            .until(|it| matches!(it, Incoming::Changed { .. }))
            .await?;
        let Incoming::Changed { key, entry } = first else {
            return Err("no change".to_owned());
        };
        assert_eq!(key, Key::Stream(wanted.clone()), "and not the other stream");
        assert_eq!(
            entry.map(|it| it.version),
            Some(version),
            "the version for a swap"
        );

        // Records of nodes are told by region.
        let node = |region: &str| {
            let region = Region::new(region).expect("a name");
            Key::Node(region, NodeId::new("n.1").expect("a name"))
        };
        for region in ["us", "eu"] {
            let call = Call::PutIf {
                key: node(region),
                value: Bytes::from_static(b"n"),
                expected: None,
            };
            writer.call(call).await.map_err(text)?;
        }
        let is_node = |it: &Incoming| {
            matches!(
                it,
                Incoming::Changed {
                    key: Key::Node(..),
                    ..
                }
            )
        };
        let Incoming::Changed { key, .. } = some.until(is_node).await? else {
            return Err("no change".to_owned());
        };
        assert_eq!(key, node("eu"));
        all.until(is_node).await?;

        scope(&mut some, Scope::Forget(wanted)).await?;
        let version = writer
            .put("wanted", "2", Some(version))
            .await
            .map_err(text)?;
        writer.delete("wanted", version).await.map_err(text)?;
        all.until_changed("wanted", Some("2")).await?;
        all.until_changed("wanted", None).await?;
        if let Some(event) = some.events.try_next() {
            return Err(format!("told of a forgotten stream: {event:?}"));
        }
        Ok(())
    })
}

async fn scope(node: &mut Node, scope: Scope) -> Result<(), String> {
    let answered = node.call(Call::Changes { scope }).await.map_err(text)?;
    assert_eq!(answered, Answered::Watching);
    Ok(())
}

fn beats() -> Result<(), Failed> {
    run(async {
        let server = Server::alone("")?;
        let urls = [server.url()];
        let mut one = Node::connect(options(&urls, "one.1")).await?;
        let mut other = Node::connect(options(&urls, "other")).await?;
        let payload = Bytes::from_static(b"{\"seq\":1}");
        let sent = one
            .call(Call::Beat {
                payload: payload.clone(),
                is_far: false,
            })
            .await;
        assert_eq!(sent, Ok(Answered::Sent));
        let from = NodeId::new("one.1").expect("a name");
        let wanted = Incoming::Beat {
            node: from.clone(),
            payload,
        };
        one.until(|it| *it == wanted).await?;
        other.until(|it| *it == wanted).await?;

        // A node of another region hears the beats that go to all, if it hears everything.
        let mut far_options = options(&urls, "far");
        far_options.region = Region::new("elsewhere").expect("a name");
        let mut far = Node::connect(far_options).await?;
        scope(&mut far, Scope::Everything).await?;
        let payload = Bytes::from_static(b"{\"seq\":2}");
        let is_far = true;
        let beat = Call::Beat { payload, is_far };
        let wanted = |it: &Incoming| match it {
            Incoming::FarBeat { node, payload } => *node == from && payload.ends_with(b"2}"),
            _ => false,
        };
        // The subscription stands at some time after the answer.
        for _ in 0..50 {
            one.call(beat.clone()).await.map_err(text)?;
            let heard = tokio::time::timeout(Duration::from_millis(200), far.until(wanted)).await;
            if let Ok(heard) = heard {
                heard?;
                break;
            }
        }

        let ask = |node: &str, within| Call::Ask {
            node: NodeId::new(node).expect("a name"),
            question: Bytes::from_static(b"live? x"),
            within,
        };
        let asking = one.begin(ask("other", Duration::from_secs(20)));
        let asked = other
            .until(|it| matches!(it, Incoming::Question { .. }))
            .await?;
        let Incoming::Question {
            from: asker,
            id,
            payload,
        } = asked
        else {
            return Err("no question".to_owned());
        };
        assert_eq!((asker, &payload[..]), (from, &b"live? x"[..]));
        let reply = |payload| Reply {
            question: id,
            payload: Bytes::from_static(payload),
        };
        other.engine.reply(reply(b"yes"));
        other.engine.reply(reply(b"twice"));
        loop {
            match one.events.next().await {
                Some(EngineEvent::Answer(answer)) if answer.id == asking => {
                    let wanted = Answered::Reply(Bytes::from_static(b"yes"));
                    assert_eq!(answer.result, Ok(wanted));
                    break;
                }
                Some(_) => {}
                None => return Err("the engine stopped".to_owned()),
            }
        }
        let absent = one.call(ask("nobody", Duration::from_secs(20))).await;
        assert_eq!(absent, Err(CallError::Unknown), "nobody listens");
        let silent = one.call(ask("other", Duration::from_millis(50))).await;
        assert_eq!(silent, Err(CallError::Unknown), "nobody replied");
        Ok(())
    })
}

fn slow_core() -> Result<(), Failed> {
    const BEATS: u64 = 20_000;
    run(async {
        let server = Server::alone("")?;
        let urls = [server.url()];
        let mut slow = Node::connect(options(&urls, "slow")).await?;
        let raw = async_nats::connect(server.url()).await.map_err(text)?;
        for number in 0..BEATS {
            let subject = format!("glassline.beat.eu.n{}", number % 50);
            let sent = raw.publish(subject, Bytes::from_static(b"{}")).await;
            sent.map_err(text)?;
            if number % 500 == 0 {
                raw.flush().await.map_err(text)?;
            }
        }
        raw.flush().await.map_err(text)?;
        // The core reads nothing until all were offered: no more are dropped for a while.
        let patience = tokio::time::Instant::now() + Duration::from_secs(30);
        let mut dropped = 0;
        loop {
            tokio::time::sleep(Duration::from_millis(300)).await;
            let before = dropped;
            dropped = slow.engine.status().dropped.beats;
            if dropped == before && dropped > 0 {
                break;
            }
            if tokio::time::Instant::now() > patience {
                return Err(format!("{:?}", slow.engine.status()));
            }
        }
        let mut read = 0;
        while let Some(event) = slow.events.try_next() {
            read += u64::from(matches!(
                event,
                EngineEvent::Incoming(Incoming::Beat { .. })
            ));
        }
        assert!(read <= 2_048, "the queue had {read} beats");
        // On a busy machine the client of NATS drops beats too, before the engine reads them. The
        // client does not count them, and the engine warns.
        let status = slow.engine.status();
        if status.warnings.is_empty() {
            assert_eq!(read + dropped, BEATS, "each beat is read or counted");
        } else {
            assert!(
                status.warnings[0].contains("some were dropped"),
                "{status:?}"
            );
        }
        assert_eq!(slow.engine.status().connects, 1, "and the connection stays");
        slow.put("x", "1", None).await.map_err(text)?;

        // Requests are bounded as well, and each has one answer.
        let mut refused = 0;
        for number in 0..2_000 {
            let key = stream("x");
            let id = glassline_cluster::engine::RequestId(10_000 + number);
            let call = Call::Get { key };
            let request = glassline_cluster::engine::Request { id, call };
            refused += usize::from(slow.engine.request(request).is_err());
        }
        assert_eq!(refused, 2_000 - 1_024);
        let mut answered = 0;
        while answered < 1_024 {
            if let Some(EngineEvent::Answer(_)) = slow.events.next().await {
                answered += 1;
            }
        }
        slow.get("x").await.map_err(text)?;
        Ok(())
    })
}

fn settings() -> Result<(), Failed> {
    run(async {
        let port = crate::ports::free_port()?;
        let http = format!("http: \"127.0.0.1:{port}\"");
        let server = Server::alone(&http)?;
        // A bucket that somebody made by hand.
        let raw = async_nats::connect(server.url()).await.map_err(text)?;
        let config = br#"{"name":"KV_glassline_streams","subjects":["$KV.glassline_streams.>"],
            "storage":"memory","max_age":5000000000,"max_msgs_per_subject":1,"allow_direct":true}"#;
        let subject = "$JS.API.STREAM.CREATE.KV_glassline_streams";
        let made = raw.request(subject, Bytes::from_static(config)).await;
        let made = made.map_err(text)?;
        assert!(
            !made.payload.windows(7).any(|it| it == b"\"error\""),
            "{made:?}"
        );
        let mut options = options(&[server.url()], "a");
        options.monitoring = format!("http://127.0.0.1:{port}").parse().ok();
        let mut node = Node::connect(options).await?;
        let began = tokio::time::Instant::now();
        let wanted = [
            "storage is memory",
            "max_age is 5 s",
            "republish is absent",
            "sync_interval",
        ];
        loop {
            let warnings = node.engine.status().warnings;
            let is_there = |part: &&str| warnings.iter().any(|it| it.contains(*part));
            if wanted.iter().all(is_there) {
                break;
            }
            if began.elapsed() > Duration::from_secs(20) {
                return Err(format!("{warnings:#?}"));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        // It works none the less, deletions without a time to live included.
        let version = node.put("x", "1", None).await.map_err(text)?;
        node.delete("x", version).await.map_err(text)?;
        assert_eq!(node.get("x").await, Ok(None));
        assert_eq!(node.delete("x", Version(9)).await, Err(CallError::Conflict));
        Ok(())
    })
}

pub(crate) fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
