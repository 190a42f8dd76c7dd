//! SIGTERM and SIGINT: the first stops cleanly, the second at once.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::control::client::ControlClient;

/// What the process ends with when it is not left the time to stop.
const EXIT_INTERRUPTED: i32 = 1;

/// Takes both signals over from now on; the task it gives acts on them.
///
/// # Errors
/// The system's.
pub(super) fn stop_on_signal(control: ControlClient) -> io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        let name = next(&mut terminate, &mut interrupt).await;
        tracing::info!("{name}: stopping");
        control.stop();
        let name = next(&mut terminate, &mut interrupt).await;
        tracing::error!("{name} again: ended without a clean stop");
        std::process::exit(EXIT_INTERRUPTED);
    })
}

async fn next(terminate: &mut Signal, interrupt: &mut Signal) -> &'static str {
    tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    }
}
