//! The terminal while the live view has it: another screen, no cursor, no echo. However the process ends, it is put back.
//!
//! Signals stay what they are: Ctrl-C interrupts the run as it does without a view. Only what would leave the terminal as it is, Ctrl-Z
//! and Ctrl-\, does nothing meanwhile.

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, isatty, tcgetattr, tcsetattr};
use std::io::{self, Stderr, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, Once, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// The other screen with its cursor hidden, and back.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l";
const LEAVE: &[u8] = b"\x1b[?25h\x1b[?1049l";

/// A control character that no key produces (`_POSIX_VDISABLE`).
const NO_KEY: u8 = 0;

/// How long to wait for a frame that is being drawn before the terminal is put back all the same: a panic may come from drawing.
const FRAME_TIMEOUT: Duration = Duration::from_millis(200);

/// Whether the view has the terminal.
static ON: AtomicBool = AtomicBool::new(false);

/// How the terminal was.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// Held while a frame is drawn.
static DRAWING: Mutex<()> = Mutex::new(());

/// What was said meanwhile, for the screen before.
static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Whether there is a terminal that can show a view.
pub(super) fn is_possible() -> bool {
    isatty(io::stderr())
        && isatty(io::stdout())
        && std::env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb")
}

/// Takes the terminal; drawing goes to the result.
pub(super) fn enter() -> io::Result<Terminal<CrosstermBackend<Stderr>>> {
    let before = tcgetattr(io::stderr())?;
    let mut quiet = before.clone();
    quiet.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON);
    for key in [SpecialCodeIndex::VQUIT, SpecialCodeIndex::VSUSP] {
        quiet.special_codes[key] = NO_KEY;
    }
    *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some(before);
    restore_on_panic();
    ON.store(true, Ordering::SeqCst);
    let entered = tcsetattr(io::stderr(), OptionalActions::Now, &quiet)
        .map_err(io::Error::from)
        .and_then(|()| io::stderr().write_all(ENTER))
        .and_then(|()| Terminal::new(CrosstermBackend::new(io::stderr())));
    if entered.is_err() {
        leave();
    }
    entered
}

/// Draws one frame, unless the terminal was given back meanwhile.
pub(super) fn draw(
    terminal: &mut Terminal<CrosstermBackend<Stderr>>,
    frame: impl FnOnce(&mut ratatui::Frame<'_>),
) -> io::Result<()> {
    let _drawing = DRAWING.lock().unwrap_or_else(PoisonError::into_inner);
    if ON.load(Ordering::SeqCst) {
        terminal.draw(frame)?;
    }
    Ok(())
}

/// Gives the terminal back as it was, and says on it what was said meanwhile. May be called at any time, from any thread.
pub fn leave() {
    if !ON.swap(false, Ordering::SeqCst) {
        return;
    }
    let waiting_since = Instant::now();
    let _drawing = loop {
        match DRAWING.try_lock() {
            Ok(guard) => break Some(guard),
            Err(TryLockError::Poisoned(guard)) => break Some(guard.into_inner()),
            Err(TryLockError::WouldBlock) if waiting_since.elapsed() > FRAME_TIMEOUT => break None,
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(1)),
        }
    };
    // A terminal that is gone needs nothing back.
    let _ = io::stderr().write_all(LEAVE);
    if let Some(before) = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take() {
        let _ = tcsetattr(io::stderr(), OptionalActions::Now, &before);
    }
    for line in SAID.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
        eprintln!("{line}");
    }
}

/// Says a line on stderr: at once, or once the view has given the terminal back. The view shows it meanwhile.
pub fn say(line: impl Into<String>) {
    let line = line.into();
    if ON.load(Ordering::SeqCst) {
        SAID.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    } else {
        eprintln!("{line}");
    }
}

/// The last lines that were said since the view has the terminal.
pub(super) fn said(most: usize) -> Vec<String> {
    let said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    said[said.len().saturating_sub(most)..].to_vec()
}

/// The message of a panic on any thread goes to the screen before.
fn restore_on_panic() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            leave();
            before(panic);
        }));
    });
}
