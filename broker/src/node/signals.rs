//! SIGTERM and SIGINT: the first stops cleanly, the second at once.

use tokio::signal::unix::{SignalKind, signal};

use crate::control::client::ControlClient;

/// What the process ends with when it is not left the time to stop.
const EXIT_INTERRUPTED: i32 = 1;

/// Watches for both signals on this thread's runtime.
pub(super) fn stop_on_signal(control: ControlClient) -> std::io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::task::spawn_local(async move {
        let next = async || {
            tokio::select! {
                _ = terminate.recv() => "SIGTERM",
                _ = interrupt.recv() => "SIGINT",
            }
        };
        let mut next = next;
        tracing::info!("{}: stopping", next().await);
        control.stop();
        tracing::error!("{} again: gone without a clean stop", next().await);
        std::process::exit(EXIT_INTERRUPTED);
    });
    Ok(())
}
