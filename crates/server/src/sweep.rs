//! Work that is due every second: what nobody needs any more is removed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_access::audit::AuditLog;
use glassline_access::auth::Access;
use glassline_hub::Hub;
use glassline_latency::LatencyRegistry;
use glassline_runtime::{FaultPoint, FreeMemory, Heartbeat, Part, calendar, keep_running};
use tokio::sync::watch;

use crate::app::App;
use crate::sessions::Shared;

/// Interval at which sessions that got no datagram and streams without viewers and source are
/// removed.
const SWEEP: Duration = Duration::from_secs(1);

/// Number of sweeps between two turns of the work that nobody waits for.
const RARE_SWEEPS: u32 = 5;

/// The parts of the server that lose what nobody needs any more.
#[derive(Debug)]
pub(crate) struct Swept {
    pub(crate) shared: Arc<Shared>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) latencies: Arc<LatencyRegistry>,
    pub(crate) audit: Arc<AuditLog>,
}

/// Sweeps until `stopped` becomes true. The task is also the heartbeat of tokio's threads.
pub(crate) fn keep_sweeping(
    swept: Swept,
    stopped: watch::Receiver<bool>,
) -> impl Future<Output = ()> {
    let supervisor = Arc::clone(&swept.shared.supervisor);
    // The supervisor knows the threads before the server is said to serve.
    let heartbeat = supervisor.register(Part::Background, "tokio");
    async move {
        let make = || sweep(&swept, &heartbeat, stopped.clone());
        let task = Part::Background.task("sweep");
        keep_running(supervisor, task, stopped.clone(), make).await;
        swept.audit.settle(None);
    }
}

async fn sweep(swept: &Swept, heartbeat: &Heartbeat, mut stopped: watch::Receiver<bool>) {
    let Swept {
        shared,
        hub,
        latencies,
        audit,
    } = swept;
    let mut ticks = tokio::time::interval(SWEEP);
    let free_memory = Arc::<FreeMemory>::default();
    let mut sweeps = 0_u32;
    loop {
        tokio::select! {
            _ = ticks.tick() => heartbeat.beat(),
            _ = stopped.wait_for(|stop| *stop) => return,
        }
        let now = Instant::now();
        for stream in hub.sweep(now) {
            latencies.forget_stream(&stream);
            tracing::info!(%stream, "stream removed: its publisher left, and nobody watches it");
        }
        shared.sweep(now);
        sweeps = sweeps.wrapping_add(1);
        if sweeps.is_multiple_of(RARE_SWEEPS) {
            latencies.sweep(|stream| hub.stream(stream.as_str()).is_some());
            let free_memory = Arc::clone(&free_memory);
            let supervisor = Arc::clone(&shared.supervisor);
            let audit = Arc::clone(audit);
            tokio::task::spawn_blocking(move || {
                let now = calendar::now();
                let _ = supervisor.catch(Part::Background, || audit.settle(Some(now)));
                supervisor.catch(Part::Background, || free_memory.tend())
            });
        }
    }
}

/// Ends the sessions in rooms that another server of the cluster has taken over. Their clients join
/// again, and meet the others there.
async fn end_moved_rooms(app: &App) {
    let member = app.sessions.directory().and_then(|it| it.member());
    let Some(member) = member else { return };
    for room in member.take_moved_rooms() {
        for session in app.rooms.sessions_of(&room) {
            if let Some(record) = app.sessions.by_id(&session) {
                // A shard that is busy keeps the session until its client leaves.
                let _ = app.sessions.leave(&record).await;
            }
        }
    }
}

/// Ends the sessions whose token has expired, and the sessions in rooms of users that have lost the
/// right to be there.
pub(crate) async fn end_lost_sessions(app: App, mut stopped: watch::Receiver<bool>) {
    let mut ticks = tokio::time::interval(SWEEP);
    // All are looked at first: after a panic, some that have lost their right may be left.
    let mut checked = None;
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            _ = stopped.wait_for(|stop| *stop) => return,
        }
        let now = Instant::now();
        // Without rights that end, no session has such an end.
        if app.users.have_ends() {
            app.sessions.end_lapsed(now).await;
            app.users.expire(now);
        }
        end_moved_rooms(&app).await;
        let generation = app.users.generation();
        if Some(generation) == checked {
            continue;
        }
        app.supervisor.fault_point(FaultPoint::LostParticipants);
        checked = Some(generation);
        let lost = app.rooms.sessions_where(|user, stream| {
            let may = |access| app.users.may(user, access, stream.as_str());
            !may(Access::Publish) || !may(Access::Read)
        });
        for session in lost {
            let Some(record) = app.sessions.by_id(&session) else {
                continue;
            };
            tracing::info!(stream = %record.stream, "participant put out of its room: its user has lost the right");
            if app.sessions.leave(&record).await.is_err() {
                // The shard is busy: the next turn tries again.
                checked = None;
            }
        }
    }
}
