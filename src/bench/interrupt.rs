//! Ctrl-C during a run: the first one ends the run, and its figures are written; the second one
//! stops the program at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::exit::Failure;
use crate::serve::Signals;

/// A flag that becomes true on the first SIGINT or SIGTERM.
pub(crate) fn listen() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::runtime(format_args!("cannot start threads: {error}")))?;
    let mut signals = {
        let _context = runtime.enter();
        Signals::new()?
    };
    let flag = Arc::clone(&stop);
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            runtime.block_on(async {
                signals.next().await;
                flag.store(true, Ordering::Relaxed);
                std::process::exit(signals.next().await.into());
            });
        })
        .map_err(|error| Failure::runtime(format_args!("cannot start threads: {error}")))?;
    Ok(stop)
}

/// Whether the user or a service manager asked for the end of the run.
pub(crate) fn is_stopped(stop: &AtomicBool) -> bool {
    stop.load(Ordering::Relaxed)
}
