//! A panic on any thread ends the process: a node is whole or gone.

use std::io::Write;

/// Makes every panic print one line and abort.
pub(super) fn abort_on_panic() {
    std::panic::set_hook(Box::new(|panic| {
        let text = panic.payload();
        let text = text
            .downcast_ref::<&str>()
            .copied()
            .or(text.downcast_ref::<String>().map(String::as_str));
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let thread = std::thread::current();
        let line = format!(
            "strandline: panic on thread {} at {place}: {}\n",
            thread.name().unwrap_or("without a name"),
            text.unwrap_or("no text").replace('\n', " ")
        );
        // One write, so that lines of two threads do not mix; nothing can be done if it fails.
        let _ = std::io::stderr().write_all(line.as_bytes());
        std::process::abort();
    }));
}
