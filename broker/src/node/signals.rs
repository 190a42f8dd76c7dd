//! SIGTERM and SIGINT: the first stops cleanly, the second at once.

use std::io;
use std::time::Duration;

use strandline_runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::control::client::ControlClient;

/// What the process ends with when it is not left the time to stop.
const EXIT_INTERRUPTED: i32 = 1;

/// What comes this soon after the first signal is the same request: `timeout` and terminals signal the process and its group.
const SAME_REQUEST: Duration = Duration::from_secs(1);

/// Takes both signals over from now on; the task it gives acts on them.
///
/// # Errors
/// The system's.
pub(super) fn stop_on_signal<R: Runtime>(
    runtime: R,
    control: ControlClient,
) -> io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        let name = next(&mut terminate, &mut interrupt).await;
        tracing::info!("{name}: stopping");
        control.stop();
        let first = runtime.now();
        let mut name = next(&mut terminate, &mut interrupt).await;
        while runtime.now().since(first) < SAME_REQUEST {
            name = next(&mut terminate, &mut interrupt).await;
        }
        tracing::error!("{name} again: ended without a clean stop");
        std::process::exit(EXIT_INTERRUPTED);
    })
}

/// Completes at the first signal: for a node that has nothing to close yet.
pub(super) async fn interrupted() {
    let signals = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()));
    let (Ok(mut terminate), Ok(mut interrupt)) = signals else {
        // They end the process as they did before.
        return std::future::pending().await;
    };
    let name = next(&mut terminate, &mut interrupt).await;
    tracing::info!("{name}: stopping");
}

async fn next(terminate: &mut Signal, interrupt: &mut Signal) -> &'static str {
    tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    }
}
