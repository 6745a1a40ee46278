//! The queue of what the core has not read yet, bounded by entries and bytes of each kind.

use std::collections::VecDeque;
use std::sync::Arc;

use glassline_cluster::engine::{Answer, Answered, Call, CallError, Incoming, Request, RequestId};
use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit};

/// Most notices of changes that wait for the core.
const CHANGES_MAX: usize = 16_384;

/// Most bytes of notices of changes that wait for the core: 16 MiB.
const CHANGE_BYTES_MAX: usize = 16 << 20;

/// Most beats that wait for the core: four seconds of a region of 500 nodes, and 8 MiB at most.
const BEATS_MAX: usize = 2_048;

/// Most questions that wait for the core. The nodes that ask wait a second.
const QUESTIONS_MAX: usize = 256;

/// An event of the engine, for the core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EngineEvent {
    /// The answer to a request.
    Answer(Answer),
    /// A message that came unasked.
    Incoming(Incoming),
}

/// Notices that did not fit into the queue, because the core read too slowly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Notices of changes. The watch then begins anew and tells all present values again.
    pub changes: u64,
    /// Number of beats.
    pub beats: u64,
    /// Questions of other nodes, which see silence.
    pub questions: u64,
}

/// The reading end of an engine.
#[derive(Debug)]
pub struct EngineEvents(pub(crate) Arc<Queue>);

impl EngineEvents {
    /// Waits for the next answer or notice; `None` after the engine stopped and all was read.
    pub async fn next(&mut self) -> Option<EngineEvent> {
        let queue = &self.0;
        loop {
            let woken = queue.filled.notified();
            if let Some(event) = queue.take() {
                return Some(event);
            }
            if queue.waiting.lock().is_closed {
                return None;
            }
            woken.await;
        }
    }

    /// Takes the next answer or notice, if there is one.
    pub fn try_next(&mut self) -> Option<EngineEvent> {
        self.0.take()
    }
}

/// Queue between the tasks of the engine and the core.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    waiting: Mutex<Waiting>,
    filled: Notify,
    /// Wakes the watch that lost notices as soon as the core has read half of the queue.
    pub(crate) emptied: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    events: VecDeque<Queued>,
    /// Session whose notices are taken; 0 while the engine is away.
    session: u64,
    changes: usize,
    change_bytes: usize,
    beats: usize,
    questions: usize,
    dropped: Dropped,
    /// Notices of changes were dropped since the watch was told.
    is_stale: bool,
    is_closed: bool,
}

#[derive(Debug)]
struct Queued {
    event: EngineEvent,
    /// Room of the request, given back when the core has its answer.
    _room: Option<OwnedSemaphorePermit>,
}

impl Queue {
    /// Tells the core that the engine can be used: notices of `session` are taken from now on.
    pub(crate) fn connected(&self, session: u64) {
        let mut waiting = self.waiting.lock();
        waiting.session = session;
        waiting.push(EngineEvent::Incoming(Incoming::Connected), None);
        drop(waiting);
        self.filled.notify_one();
    }

    /// Tells the core that the engine cannot be used: notices of the session are no longer taken.
    pub(crate) fn disconnected(&self) {
        let mut waiting = self.waiting.lock();
        if waiting.session != 0 {
            waiting.session = 0;
            waiting.push(EngineEvent::Incoming(Incoming::Disconnected), None);
        }
        drop(waiting);
        self.filled.notify_one();
    }

    /// Adds what came unasked in `session`, or drops and counts it if there is no room.
    pub(crate) fn notice(&self, session: u64, incoming: Incoming) {
        let mut waiting = self.waiting.lock();
        if waiting.session == session && waiting.makes_room(&incoming) {
            waiting.push(EngineEvent::Incoming(incoming), None);
            drop(waiting);
            self.filled.notify_one();
        }
    }

    fn answer(&self, answer: Answer, room: Option<OwnedSemaphorePermit>) {
        self.waiting.lock().push(EngineEvent::Answer(answer), room);
        self.filled.notify_one();
    }

    fn take(&self) -> Option<EngineEvent> {
        let mut waiting = self.waiting.lock();
        let event = waiting.events.pop_front()?.event;
        if let EngineEvent::Incoming(incoming) = &event {
            waiting.forget(incoming);
        }
        if waiting.is_stale && waiting.changes <= CHANGES_MAX / 2 {
            waiting.is_stale = false;
            self.emptied.notify_one();
        }
        Some(event)
    }

    /// Returns what was dropped so far.
    pub(crate) fn dropped(&self) -> Dropped {
        self.waiting.lock().dropped
    }

    /// Ends the queue: the core reads what is left, and then nothing more.
    pub(crate) fn close(&self) {
        self.waiting.lock().is_closed = true;
        self.filled.notify_one();
    }
}

impl Waiting {
    fn push(&mut self, event: EngineEvent, room: Option<OwnedSemaphorePermit>) {
        self.events.push_back(Queued { event, _room: room });
    }

    /// Counts what comes in; `false` if there is no room for it.
    fn makes_room(&mut self, incoming: &Incoming) -> bool {
        match incoming {
            Incoming::Changed { .. } | Incoming::Missing { .. } => {
                let bytes = change_bytes(incoming);
                if self.changes >= CHANGES_MAX || self.change_bytes + bytes > CHANGE_BYTES_MAX {
                    self.dropped.changes += 1;
                    self.is_stale = true;
                    return false;
                }
                self.changes += 1;
                self.change_bytes += bytes;
            }
            Incoming::Beat { .. } | Incoming::FarBeat { .. } if self.beats >= BEATS_MAX => {
                self.dropped.beats += 1;
                return false;
            }
            Incoming::Beat { .. } | Incoming::FarBeat { .. } => self.beats += 1,
            Incoming::Question { .. } if self.questions >= QUESTIONS_MAX => {
                self.dropped.questions += 1;
                return false;
            }
            Incoming::Question { .. } => self.questions += 1,
            Incoming::Connected | Incoming::Disconnected => {}
        }
        true
    }

    fn forget(&mut self, incoming: &Incoming) {
        match incoming {
            Incoming::Changed { .. } | Incoming::Missing { .. } => {
                self.changes -= 1;
                self.change_bytes -= change_bytes(incoming);
            }
            Incoming::Beat { .. } | Incoming::FarBeat { .. } => self.beats -= 1,
            Incoming::Question { .. } => self.questions -= 1,
            Incoming::Connected | Incoming::Disconnected => {}
        }
    }
}

/// Bytes of a notice, with what it costs beside the value.
fn change_bytes(incoming: &Incoming) -> usize {
    const OVERHEAD: usize = 128;
    match incoming {
        Incoming::Changed { entry, .. } => {
            OVERHEAD + entry.as_ref().map_or(0, |entry| entry.value.len())
        }
        _ => OVERHEAD,
    }
}

/// The duty to answer a request once. What is dropped without an answer, because its task was
/// ended, answers by itself.
#[derive(Debug)]
pub(crate) struct Pledge {
    id: RequestId,
    is_write: bool,
    queue: Arc<Queue>,
    room: Option<OwnedSemaphorePermit>,
    is_answered: bool,
}

impl Pledge {
    pub(crate) fn new(request: &Request, queue: Arc<Queue>, room: OwnedSemaphorePermit) -> Self {
        Self {
            id: request.id,
            is_write: matches!(request.call, Call::PutIf { .. } | Call::DeleteIf { .. }),
            queue,
            room: Some(room),
            is_answered: false,
        }
    }

    /// Answers the request.
    pub(crate) fn answer(mut self, result: Result<Answered, CallError>) {
        self.send(result);
    }

    fn send(&mut self, result: Result<Answered, CallError>) {
        self.is_answered = true;
        let id = self.id;
        self.queue.answer(Answer { id, result }, self.room.take());
    }
}

impl Drop for Pledge {
    fn drop(&mut self) {
        if !self.is_answered {
            // A write may have left before its task ended.
            let error = match self.is_write {
                true => CallError::Unknown,
                false => CallError::Away,
            };
            self.send(Err(error));
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use glassline_cluster::engine::{Entry, QuestionId, Version};
    use glassline_cluster::{Key, NodeId, StreamName};
    use tokio::sync::Semaphore;

    use super::*;

    fn change(bytes: usize) -> Incoming {
        let name = StreamName::new("a").expect("a name");
        let entry = Entry {
            value: vec![0; bytes].into(),
            version: Version(1),
        };
        Incoming::Changed {
            key: Key::Stream(name),
            entry: Some(entry),
        }
    }

    fn beat() -> Incoming {
        let node = NodeId::new("a").expect("a name");
        Incoming::Beat {
            node,
            payload: Bytes::new(),
        }
    }

    fn drain(events: &mut EngineEvents) -> Vec<EngineEvent> {
        std::iter::from_fn(|| events.try_next()).collect()
    }

    #[test]
    fn a_core_that_reads_nothing_costs_a_bounded_queue_and_is_told_what_it_missed() {
        let queue = Arc::new(Queue::default());
        let mut events = EngineEvents(Arc::clone(&queue));
        queue.connected(1);
        for _ in 0..CHANGES_MAX + 10 {
            queue.notice(1, change(10));
            queue.notice(1, beat());
        }
        let dropped = queue.dropped();
        assert_eq!(dropped.changes, 10);
        assert_eq!(dropped.beats as usize, CHANGES_MAX + 10 - BEATS_MAX);
        let read = drain(&mut events);
        assert_eq!(read.len(), 1 + CHANGES_MAX + BEATS_MAX);
        assert!(!queue.waiting.lock().is_stale, "the watch was woken");
        queue.notice(1, beat());
        assert_eq!(drain(&mut events).len(), 1, "room again");
    }

    #[test]
    fn changes_are_bounded_by_their_bytes_too() {
        let queue = Arc::new(Queue::default());
        queue.connected(1);
        for _ in 0..CHANGES_MAX {
            queue.notice(1, change(4_096));
        }
        let waiting = queue.waiting.lock();
        assert!(waiting.change_bytes <= CHANGE_BYTES_MAX);
        assert!(waiting.dropped.changes > 0);
    }

    #[test]
    fn questions_are_bounded_and_connected_always_fits() {
        let queue = Arc::new(Queue::default());
        let mut events = EngineEvents(Arc::clone(&queue));
        queue.connected(1);
        for number in 0..QUESTIONS_MAX as u64 + 5 {
            let from = NodeId::new("b").expect("a name");
            let payload = Bytes::new();
            let id = QuestionId(number);
            queue.notice(1, Incoming::Question { from, id, payload });
        }
        queue.disconnected();
        queue.connected(2);
        assert_eq!(queue.dropped().questions, 5);
        assert_eq!(drain(&mut events).len(), QUESTIONS_MAX + 3);
    }

    #[test]
    fn notices_of_an_earlier_session_do_not_follow_connected() {
        let queue = Arc::new(Queue::default());
        let mut events = EngineEvents(Arc::clone(&queue));
        queue.connected(1);
        queue.disconnected();
        queue.disconnected();
        queue.notice(1, beat());
        queue.connected(2);
        queue.notice(1, beat());
        let told = drain(&mut events);
        let wanted = [
            Incoming::Connected,
            Incoming::Disconnected,
            Incoming::Connected,
        ];
        assert_eq!(told, wanted.map(EngineEvent::Incoming));
    }

    #[test]
    fn a_request_whose_task_ends_is_answered_once() {
        let queue = Arc::new(Queue::default());
        let mut events = EngineEvents(Arc::clone(&queue));
        let rooms = Arc::new(Semaphore::new(2));
        let key = Key::Stream(StreamName::new("a").expect("a name"));
        let get = Call::Get { key: key.clone() };
        let delete = Call::DeleteIf {
            key,
            expected: Version(1),
        };
        for (number, call) in [get, delete].into_iter().enumerate() {
            let room = Arc::clone(&rooms).try_acquire_owned().expect("room");
            let id = RequestId(number as u64);
            drop(Pledge::new(&Request { id, call }, Arc::clone(&queue), room));
        }
        assert_eq!(rooms.available_permits(), 0, "the core has not read them");
        let errors = drain(&mut events).into_iter().map(|event| match event {
            EngineEvent::Answer(answer) => answer.result,
            EngineEvent::Incoming(_) => panic!("nothing came"),
        });
        let errors: Vec<_> = errors.collect();
        assert_eq!(errors, [Err(CallError::Away), Err(CallError::Unknown)]);
        assert_eq!(rooms.available_permits(), 2);
    }
}
