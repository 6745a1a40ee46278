//! Records in JetStream: compare-and-swap, reads from the leader, lists, and the buckets.

use std::time::Duration;

use async_nats::HeaderMap;
use bytes::Bytes;
use futures_util::StreamExt;
use glassline_cluster::Key;
use glassline_cluster::engine::{
    CallError, Entry, KeyKind, STORE_TIMEOUT, VALUE_BYTES_MAX, Version,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::api::{
    AnswerError, ApiError, ConsumerConfig, ConsumerInfo, CreateConsumer, Found, LastOf, Stored,
    code, is_deletion, read,
};
use crate::bucket::{Bucket, StreamInfo, of_kind};
use crate::connection::{Connection, NoAnswer};
use crate::delivery::Delivery;

/// Header of a compare-and-swap: number of the last message of the subject.
const EXPECTED: &str = "Nats-Expected-Last-Subject-Sequence";

/// Time after which JetStream drops the mark of a deletion. Longer than any watch is away.
const MARK_TTL: &str = "1h";

/// Most entries of a list.
const LIST_MAX: usize = 200_000;

/// Most bytes of the values of a list: 64 MiB.
const LIST_BYTES_MAX: usize = 64 << 20;

/// Interval of heartbeats of a consumer without messages.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(2);

/// Time after which JetStream drops a consumer that nobody hears.
const CONSUMER_TTL: Duration = Duration::from_secs(10);

/// Failure of a request to JetStream that writes nothing.
#[derive(Debug)]
pub(crate) enum ApiFailure {
    /// JetStream says no.
    Refused(ApiError),
    /// JetStream is off, or the bucket's servers are out of reach.
    NobodyListens,
    /// No answer came in time.
    Silence,
    /// The request did not leave.
    NotSent,
    /// The answer is not one of JetStream.
    NotReadable(String),
}

impl ApiFailure {
    /// Whether the bucket is gone.
    pub(crate) fn is_no_stream(&self) -> bool {
        matches!(self, Self::Refused(error) if error.err_code == code::NO_STREAM)
    }

    pub(crate) fn of_a_read(self) -> CallError {
        match self {
            Self::Refused(error) => error.of_a_read(),
            Self::NotSent | Self::NobodyListens => CallError::Away,
            Self::Silence => CallError::Unknown,
            Self::NotReadable(reason) => CallError::Refused(reason),
        }
    }
}

/// Asks the API of JetStream.
pub(crate) async fn ask<T: DeserializeOwned>(
    connection: &Connection,
    subject: String,
    request: &impl Serialize,
) -> Result<T, ApiFailure> {
    let payload = serde_json::to_vec(request);
    let payload = payload.map_err(|error| ApiFailure::NotReadable(error.to_string()))?;
    let subject = format!("$JS.API.{subject}");
    let answer = connection
        .request(subject, HeaderMap::new(), payload.into(), STORE_TIMEOUT)
        .await;
    let message = answer.map_err(|error| match error {
        NoAnswer::NotSent => ApiFailure::NotSent,
        NoAnswer::NobodyListens => ApiFailure::NobodyListens,
        NoAnswer::Silence => ApiFailure::Silence,
    })?;
    read(&message.payload).map_err(|error| match error {
        AnswerError::Api(error) => ApiFailure::Refused(error),
        AnswerError::NotReadable(reason) => ApiFailure::NotReadable(reason),
    })
}

/// Returns the settings of a bucket.
pub(crate) async fn inspect(
    connection: &Connection,
    bucket: Bucket,
) -> Result<StreamInfo, ApiFailure> {
    let subject = format!("STREAM.INFO.{}", bucket.stream);
    ask(connection, subject, &serde_json::json!({})).await
}

/// Makes a bucket.
pub(crate) async fn make(
    connection: &Connection,
    bucket: Bucket,
    replicas: u8,
) -> Result<StreamInfo, ApiFailure> {
    let subject = format!("STREAM.CREATE.{}", bucket.stream);
    ask(connection, subject, &bucket.config(replicas)).await
}

/// The trouble of a bucket while it was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Nothing that concerns the bucket.
    None,
    /// The bucket, or the servers that have it, may be gone.
    Suspected,
}

/// The outcome of a call, and whether the bucket should be looked at.
pub(crate) type Outcome<T> = (Result<T, CallError>, Trouble);

fn fine<T>(value: T) -> Outcome<T> {
    (Ok(value), Trouble::None)
}

/// Reads a key from the leader of its bucket.
pub(crate) async fn get(connection: &Connection, key: &Key) -> Outcome<Option<Entry>> {
    let bucket = bucket_of(key);
    match last(connection, bucket, key).await {
        Ok(None) => fine(None),
        Ok(Some(found)) => match found.message.value() {
            Ok(value) => {
                let version = Version(found.message.seq);
                fine(value.map(|value| Entry { value, version }))
            }
            Err(reason) => (Err(CallError::Refused(reason)), Trouble::None),
        },
        Err(failure) => of_failure(failure),
    }
}

fn of_failure<T>(failure: ApiFailure) -> Outcome<T> {
    let is_suspected = failure.is_no_stream() || matches!(failure, ApiFailure::NobodyListens);
    match is_suspected {
        // The bucket is made again, and the core is told.
        true => (Err(CallError::Away), Trouble::Suspected),
        false => (Err(failure.of_a_read()), Trouble::None),
    }
}

/// The last message of a key; `None` if there is none.
async fn last(
    connection: &Connection,
    bucket: Bucket,
    key: &Key,
) -> Result<Option<Found>, ApiFailure> {
    let subject = bucket.subject(&key.to_string());
    let request = LastOf {
        last_by_subj: &subject,
    };
    let api = format!("STREAM.MSG.GET.{}", bucket.stream);
    match ask::<Found>(connection, api, &request).await {
        Ok(found) => Ok(Some(found)),
        Err(ApiFailure::Refused(error)) if error.err_code == code::NO_MESSAGE => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// Writes `value` if the key has the expected version, or none.
pub(crate) async fn put_if(
    connection: &Connection,
    key: &Key,
    value: Bytes,
    expected: Option<Version>,
) -> Outcome<Version> {
    if value.len() > VALUE_BYTES_MAX {
        let reason = format!("a record of {} bytes is too large", value.len());
        return (Err(CallError::Refused(reason)), Trouble::None);
    }
    let putting = put(connection, key, value, expected);
    let put = tokio::time::timeout(STORE_TIMEOUT, putting).await;
    put.unwrap_or((Err(CallError::Unknown), Trouble::None))
}

async fn put(
    connection: &Connection,
    key: &Key,
    value: Bytes,
    expected: Option<Version>,
) -> Outcome<Version> {
    let bucket = bucket_of(key);
    let version = expected.map_or(0, |version| version.0);
    let first = swap(connection, bucket, key, value.clone(), version, &[]).await;
    // A deleted key has the version of its mark.
    if expected.is_some() || first.0 != Err(CallError::Conflict) {
        return first;
    }
    match last(connection, bucket, key).await {
        Ok(Some(found)) if found.message.value() == Ok(None) => {
            swap(connection, bucket, key, value, found.message.seq, &[]).await
        }
        // The first try was certainly not applied.
        Ok(_) | Err(_) => first,
    }
}

/// Deletes the key if it has the expected version. The mark goes by itself where the bucket
/// `has_ttl`.
pub(crate) async fn delete_if(
    connection: &Connection,
    key: &Key,
    expected: Version,
    has_ttl: bool,
) -> Outcome<()> {
    let mark = [("KV-Operation", "DEL"), ("Nats-TTL", MARK_TTL)];
    let mark = match has_ttl {
        true => &mark[..],
        false => &mark[..1],
    };
    let bucket = bucket_of(key);
    let (result, trouble) = swap(connection, bucket, key, Bytes::new(), expected.0, mark).await;
    (result.map(|_| ()), trouble)
}

/// Stores a message if the last one of its subject has the number `version`.
async fn swap(
    connection: &Connection,
    bucket: Bucket,
    key: &Key,
    value: Bytes,
    version: u64,
    more: &[(&'static str, &'static str)],
) -> Outcome<Version> {
    let subject = bucket.subject(&key.to_string());
    let mut headers = HeaderMap::new();
    headers.insert(EXPECTED, version.to_string().as_str());
    for (name, text) in more {
        headers.insert(*name, *text);
    }
    let answer = connection.request(subject, headers, value, STORE_TIMEOUT);
    match answer.await {
        Ok(message) => match read::<Stored>(&message.payload) {
            Ok(stored) => fine(Version(stored.seq)),
            Err(AnswerError::Api(error)) => (Err(error.of_a_write()), Trouble::None),
            Err(AnswerError::NotReadable(_)) => (Err(CallError::Unknown), Trouble::None),
        },
        Err(NoAnswer::NotSent) => (Err(CallError::Away), Trouble::None),
        // No bucket takes the subject: nothing was stored.
        Err(NoAnswer::NobodyListens) => (Err(CallError::Away), Trouble::Suspected),
        Err(NoAnswer::Silence) => (Err(CallError::Unknown), Trouble::None),
    }
}

fn bucket_of(key: &Key) -> Bucket {
    of_kind(match key {
        Key::Stream(_) => KeyKind::Streams,
        Key::Node(..) => KeyKind::Nodes,
    })
}

/// Reads all keys of a bucket within [`STORE_TIMEOUT`]. Keys that do not parse are left out.
pub(crate) async fn list(connection: &Connection, kind: KeyKind) -> Outcome<Vec<(Key, Entry)>> {
    match tokio::time::timeout(STORE_TIMEOUT, list_all(connection, of_kind(kind))).await {
        Ok(Ok(entries)) => fine(entries),
        Ok(Err(failure)) => of_failure(failure),
        Err(_) => (Err(CallError::Unknown), Trouble::None),
    }
}

async fn list_all(
    connection: &Connection,
    bucket: Bucket,
) -> Result<Vec<(Key, Entry)>, ApiFailure> {
    let mut consumer = Consumer::open(connection, bucket, ">").await?;
    let mut entries = Vec::new();
    let mut bytes = 0;
    let mut is_more = consumer.pending > 0;
    while is_more {
        let Some(Delivered::Record { delivery, record }) = consumer.next().await else {
            // A gap, or the subscription ended: what is there is not whole.
            return Err(ApiFailure::Silence);
        };
        is_more = delivery.pending > 0;
        let Some((key, Some(entry))) = record else {
            continue;
        };
        bytes += entry.value.len();
        if entries.len() == LIST_MAX || bytes > LIST_BYTES_MAX {
            let reason = format!("more than {LIST_MAX} records in {}", bucket.stream);
            return Err(ApiFailure::NotReadable(reason));
        }
        entries.push((key, entry));
    }
    consumer.close().await;
    Ok(entries)
}

/// A consumer that pushes the last record of each key, and then all changes.
pub(crate) struct Consumer<'a> {
    connection: &'a Connection,
    messages: async_nats::Subscriber,
    bucket: Bucket,
    name: String,
    delivered: u64,
    /// Records that come at once.
    pub(crate) pending: u64,
}

/// A delivery of a consumer.
pub(crate) enum Delivered {
    /// A message of the bucket; `record` is `None` if its key does not parse, and holds no entry if
    /// the message marks a deletion.
    Record {
        delivery: Delivery,
        record: Option<(Key, Option<Entry>)>,
    },
    /// Nothing happened meanwhile.
    Heartbeat,
    /// A message is missing: the consumer is of no more use.
    Gap,
}

impl<'a> Consumer<'a> {
    /// Makes a consumer of the keys that `filter` fits.
    pub(crate) async fn open(
        connection: &'a Connection,
        bucket: Bucket,
        filter: &str,
    ) -> Result<Self, ApiFailure> {
        let inbox = connection.client.new_inbox();
        let messages = connection.client.subscribe(inbox.clone()).await;
        let messages = messages.map_err(|_| ApiFailure::NotSent)?;
        let name = format!("glassline_{:016x}", rand::random::<u64>());
        let filter = bucket.subject(filter);
        let request = CreateConsumer {
            stream_name: bucket.stream,
            config: ConsumerConfig {
                name: &name,
                description: "records for a node of glassline",
                deliver_subject: &inbox,
                deliver_policy: "last_per_subject",
                ack_policy: "none",
                replay_policy: "instant",
                filter_subject: &filter,
                flow_control: true,
                idle_heartbeat: nanoseconds(HEARTBEAT),
                inactive_threshold: nanoseconds(CONSUMER_TTL),
                num_replicas: 1,
                mem_storage: true,
                max_deliver: 1,
            },
        };
        let subject = format!("CONSUMER.CREATE.{}.{name}", bucket.stream);
        let info: ConsumerInfo = ask(connection, subject, &request).await?;
        Ok(Self {
            connection,
            messages,
            bucket,
            name,
            delivered: 0,
            pending: info.num_pending,
        })
    }

    /// Waits for what comes next; `None` when the connection is lost.
    pub(crate) async fn next(&mut self) -> Option<Delivered> {
        let message = self.messages.next().await?;
        if message.status.is_some() {
            return Some(self.on_status(&message).await);
        }
        let subject = message.reply.as_ref().map(async_nats::Subject::as_str);
        let Ok(delivery) = Delivery::parse(subject.unwrap_or_default()) else {
            return Some(Delivered::Gap);
        };
        if delivery.consumer_sequence != self.delivered + 1 {
            return Some(Delivered::Gap);
        }
        self.delivered += 1;
        let key = message.subject.strip_prefix(self.bucket.prefix);
        let key = key.and_then(|text| Key::parse(text).ok());
        let is_fit = message.payload.len() <= VALUE_BYTES_MAX;
        let record = key.filter(|_| is_fit).map(|key| {
            let entry = (!is_deletion(message.headers.as_ref())).then(|| Entry {
                value: message.payload.clone(),
                version: Version(delivery.stream_sequence),
            });
            (key, entry)
        });
        Some(Delivered::Record { delivery, record })
    }

    async fn on_status(&mut self, message: &async_nats::Message) -> Delivered {
        let headers = message.headers.as_ref();
        let header = |name: &'static str| headers.and_then(|it| it.get(name));
        // A server that waits for a sign of life names the subject in one of two places.
        let stalled = header("Nats-Consumer-Stalled").map(|it| it.as_str().to_owned());
        let reply = message.reply.as_ref().map(ToString::to_string);
        if let Some(subject) = reply.or(stalled) {
            // Without it the server sends no more, and the heartbeats end.
            let _ = self.connection.client.publish(subject, Bytes::new()).await;
        }
        let last = header("Nats-Last-Consumer").and_then(|it| it.as_str().parse::<u64>().ok());
        match last {
            Some(last) if last != self.delivered => Delivered::Gap,
            _ => Delivered::Heartbeat,
        }
    }

    /// Deletes the consumer, so that the server does not wait until it is due.
    pub(crate) async fn close(self) {
        let subject = format!(
            "$JS.API.CONSUMER.DELETE.{}.{}",
            self.bucket.stream, self.name
        );
        let _ = self.connection.client.publish(subject, Bytes::new()).await;
    }
}

fn nanoseconds(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
