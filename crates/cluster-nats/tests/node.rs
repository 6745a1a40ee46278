//! An engine as a core uses it, and what tests wait for.

use std::time::{Duration, Instant};

use glassline_cluster::engine::{
    Answered, Call, CallError, Entry, Incoming, Request, RequestId, Version,
};
use glassline_cluster::{Key, NodeId, Region, StreamName};
use glassline_cluster_nats::{Engine, EngineEvent, EngineEvents, Login, Options};

/// Longer than any election, for a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Node {
    pub(crate) engine: Engine,
    pub(crate) events: EngineEvents,
    next: u64,
    /// Messages that came unasked and were not taken yet.
    pub(crate) told: Vec<Incoming>,
}

pub(crate) fn options(urls: &[String], name: &str) -> Options {
    Options {
        servers: urls.iter().map(|url| url.parse().expect("a URL")).collect(),
        node: NodeId::new(name).expect("a name"),
        region: Region::new("eu").expect("a name"),
        login: Login::Anonymous,
        tls: None,
        replicas: None,
        monitoring: None,
    }
}

pub(crate) fn stream(name: &str) -> Key {
    Key::Stream(StreamName::new(name).expect("a name"))
}

impl Node {
    pub(crate) fn start(options: Options) -> Self {
        let (engine, events) = Engine::start(options);
        Self {
            engine,
            events,
            next: 0,
            told: Vec::new(),
        }
    }

    /// Starts an engine and waits until it can be used.
    pub(crate) async fn connect(options: Options) -> Result<Self, String> {
        let mut node = Self::start(options);
        node.until(|it| *it == Incoming::Connected).await?;
        Ok(node)
    }

    /// Begins a call.
    pub(crate) fn begin(&mut self, call: Call) -> RequestId {
        self.next += 1;
        let id = RequestId(self.next);
        let request = Request { id, call };
        self.engine.request(request).expect("there is room");
        id
    }

    /// Makes a call and waits for its answer.
    pub(crate) async fn call(&mut self, call: Call) -> Result<Answered, CallError> {
        let id = self.begin(call);
        loop {
            match tokio::time::timeout(PATIENCE, self.events.next()).await {
                Ok(Some(EngineEvent::Answer(answer))) if answer.id == id => return answer.result,
                Ok(Some(EngineEvent::Answer(answer))) => panic!("another answer: {answer:?}"),
                Ok(Some(EngineEvent::Incoming(incoming))) => self.told.push(incoming),
                Ok(None) | Err(_) => panic!("request {id:?} has no answer"),
            }
        }
    }

    pub(crate) async fn put(
        &mut self,
        name: &str,
        value: &str,
        expected: Option<Version>,
    ) -> Result<Version, CallError> {
        let call = Call::PutIf {
            key: stream(name),
            value: value.to_owned().into(),
            expected,
        };
        match self.call(call).await? {
            Answered::Put(version) => Ok(version),
            other => panic!("{other:?}"),
        }
    }

    /// Puts until it is certain what came of it, as the core does.
    pub(crate) async fn put_until_certain(&mut self, name: &str, value: &str) -> Version {
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            let entry = self.get_until_certain(name).await;
            if let Some(entry) = entry.as_ref().filter(|entry| entry.value == value) {
                return entry.version;
            }
            let expected = entry.map(|entry| entry.version);
            if let Ok(version) = self.put(name, value, expected).await {
                return version;
            }
        }
        panic!("no write of {name} within {PATIENCE:?}");
    }

    pub(crate) async fn get(&mut self, name: &str) -> Result<Option<Entry>, CallError> {
        match self.call(Call::Get { key: stream(name) }).await? {
            Answered::Got(entry) => Ok(entry),
            other => panic!("{other:?}"),
        }
    }

    /// Reads until the servers answer, as the core does.
    pub(crate) async fn get_until_certain(&mut self, name: &str) -> Option<Entry> {
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            match self.get(name).await {
                Ok(entry) => return entry,
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
        panic!("no read of {name} within {PATIENCE:?}");
    }

    pub(crate) async fn delete(&mut self, name: &str, version: Version) -> Result<(), CallError> {
        let call = Call::DeleteIf {
            key: stream(name),
            expected: version,
        };
        self.call(call).await.map(drop)
    }

    /// Waits for a notice that `fits`; earlier ones are forgotten.
    pub(crate) async fn until(
        &mut self,
        fits: impl Fn(&Incoming) -> bool,
    ) -> Result<Incoming, String> {
        if let Some(at) = self.told.iter().position(&fits) {
            let found = self.told.remove(at);
            self.told.drain(..at);
            return Ok(found);
        }
        self.told.clear();
        let waiting = async {
            loop {
                match self.events.next().await {
                    Some(EngineEvent::Incoming(incoming)) if fits(&incoming) => {
                        return Ok(incoming);
                    }
                    Some(EngineEvent::Incoming(_)) => {}
                    other => return Err(format!("unexpected: {other:?}")),
                }
            }
        };
        let waited = tokio::time::timeout(PATIENCE, waiting).await;
        waited.unwrap_or_else(|_| Err(format!("it never came: {:?}", self.engine.status())))
    }

    /// Waits for the notice that the stream has this value, or none.
    pub(crate) async fn until_changed(
        &mut self,
        name: &str,
        value: Option<&str>,
    ) -> Result<(), String> {
        let wanted = stream(name);
        let fits = |incoming: &Incoming| match incoming {
            Incoming::Changed { key, entry } => {
                let is = entry.as_ref().map(|it| &it.value[..]);
                *key == wanted && is == value.map(str::as_bytes)
            }
            _ => false,
        };
        let found = self.until(fits).await;
        found.map(drop).map_err(|error| format!("{name}: {error}"))
    }
}

/// Runs a test on a runtime of its own.
pub(crate) fn run<F: Future<Output = Result<(), String>>>(
    test: F,
) -> Result<(), libtest_mimic::Failed> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    runtime.block_on(test).map_err(Into::into)
}
