//! While progress is drawn, the terminal does not show typed control characters: the `^C` of Ctrl-C would push the line
//! with the spinner up, where nothing clears it. It also keeps what it has not shown yet when Ctrl-C is typed: a drawing of
//! which a part is lost cannot be cleared.

use std::io::{Stderr, stderr};

use parking_lot::{Mutex, MutexGuard};
use rustix::process::getpgrp;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr};

/// The settings of the terminal before they were changed.
static SAVED: Mutex<Option<Termios>> = Mutex::new(None);

fn lock_saved() -> MutexGuard<'static, Option<Termios>> {
    SAVED.lock()
}

/// Hides typed control characters until [`show_typed_controls`].
pub(crate) fn hide_typed_controls() {
    let mut saved = lock_saved();
    let terminal = stderr();
    // A program in the background that changes its terminal is stopped.
    if saved.is_some() || !is_in_foreground(&terminal) {
        return;
    }
    let Ok(before) = tcgetattr(&terminal) else { return };
    let mut changed = before.clone();
    changed.local_modes.remove(LocalModes::ECHOCTL);
    changed.local_modes.insert(LocalModes::NOFLSH);
    if tcsetattr(&terminal, OptionalActions::Now, &changed).is_ok() {
        *saved = Some(before);
    }
}

/// Restores the terminal, if it was changed.
pub(crate) fn show_typed_controls() {
    let terminal = stderr();
    if let Some(before) = lock_saved().take()
        && is_in_foreground(&terminal)
    {
        // Without this, `^C` is not shown; nothing else is lost.
        let _ = tcsetattr(&terminal, OptionalActions::Now, &before);
    }
}

fn is_in_foreground(terminal: &Stderr) -> bool {
    tcgetpgrp(terminal).is_ok_and(|group| group == getpgrp())
}
