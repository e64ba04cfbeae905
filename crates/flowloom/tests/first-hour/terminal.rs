//! A terminal: a pseudo-terminal for the program, and an emulator that shows what a person sees.

use std::io::{Read as _, Write as _};
use std::num::NonZeroU16;
use std::process::{Child, Command};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use pty_process::Size;
use pty_process::blocking::Pty;
use rustix::termios::LocalModes;

/// Rows of the terminal: more than any screen of the tests, so that nothing scrolls away.
const ROWS: u16 = 120;
/// How long a test waits for what it expects to see.
const SCREEN_TIMEOUT: Duration = Duration::from_secs(60);

/// A program in a terminal.
pub(crate) struct TerminalSession {
    child: Child,
    pty: Arc<Pty>,
    shared: Arc<SharedScreen>,
}

/// The output of the program, and the notification of new output.
struct SharedScreen {
    seen: Mutex<Seen>,
    changed: Condvar,
}

/// The output of the program.
struct Seen {
    parser: vt100::Parser,
    bytes: Vec<u8>,
    is_over: bool,
}

/// The output of a program that has ended, as a person saw it.
pub(crate) struct Screen {
    /// The lines, without blank ones at the end.
    pub(crate) text: String,
    /// The lines that were wider than the terminal.
    pub(crate) wrapped: Vec<String>,
    /// Everything that was printed.
    pub(crate) bytes: String,
    pub(crate) exit: Option<i32>,
}

impl TerminalSession {
    /// Starts a program in a terminal with this many columns.
    pub(crate) fn start(command: Command, columns: u16) -> TerminalSession {
        let (pty, inner) = pty_process::blocking::open().expect("a pseudo-terminal");
        pty.resize(Size::new(ROWS, columns)).expect("a size");
        let child = pty_process::blocking::Command::from(command).spawn(inner).expect("the program starts");
        let size = |number| NonZeroU16::new(number).expect("not 0");
        let parser = vt100::Parser::new(size(ROWS), size(columns), 0);
        let seen = Mutex::new(Seen { parser, bytes: Vec::new(), is_over: false });
        let shared = Arc::new(SharedScreen { seen, changed: Condvar::new() });
        let pty = Arc::new(pty);
        let (reader, screen) = (pty.clone(), shared.clone());
        std::thread::spawn(move || read_output(&reader, &screen));
        TerminalSession { child, pty, shared }
    }

    /// Waits until the screen shows a text.
    pub(crate) fn wait_for(&self, text: &str) {
        let SharedScreen { seen, changed } = &*self.shared;
        let shows = |seen: &mut Seen| !seen.is_over && !seen.parser.screen().contents().contains(text);
        let seen = seen.lock().expect("not poisoned");
        let (seen, _) = changed.wait_timeout_while(seen, SCREEN_TIMEOUT, shows).expect("not poisoned");
        let screen = seen.parser.screen().contents();
        assert!(screen.contains(text), "the screen does not show {text:?}:\n{screen}");
    }

    /// Whether the terminal keeps what it has not shown yet when Ctrl-C is typed.
    pub(crate) fn keeps_output(&self) -> bool {
        rustix::termios::tcgetattr(&*self.pty).expect("a terminal").local_modes.contains(LocalModes::NOFLSH)
    }

    /// Types text; Enter is `\r`, Ctrl-C `\x03`, Ctrl-D `\x04`.
    pub(crate) fn send_keys(&self, keys: &str) {
        (&*self.pty).write_all(keys.as_bytes()).expect("typed");
    }

    /// Waits for the end of the program.
    pub(crate) fn finish(mut self) -> Screen {
        let exit = self.child.wait().expect("it ends").code();
        let SharedScreen { seen, changed } = &*self.shared;
        let seen = seen.lock().expect("not poisoned");
        let (seen, _) = changed.wait_timeout_while(seen, SCREEN_TIMEOUT, |seen| !seen.is_over).expect("not poisoned");
        let screen = seen.parser.screen();
        let rows: Vec<String> = screen.rows(0, u16::MAX).map(|row| row.trim_end().to_owned()).collect();
        let (_, columns) = screen.size();
        let is_full = |row: &String| row.chars().count() >= usize::from(columns.get());
        let wrapped = (0..ROWS).filter(|row| screen.row_wrapped(*row)).map(|row| rows[usize::from(row)].clone());
        Screen {
            // The program fills lines with blanks.
            wrapped: wrapped.filter(is_full).collect(),
            text: rows.join("\n").trim_end().to_owned(),
            bytes: String::from_utf8_lossy(&seen.bytes).into_owned(),
            exit,
        }
    }
}

/// Reads until the program has closed its side, which Linux reports as an error.
fn read_output(pty: &Pty, screen: &SharedScreen) {
    let mut buffer = [0; 4096];
    loop {
        let mut reader = pty;
        let count = reader.read(&mut buffer).unwrap_or(0);
        let mut state = screen.seen.lock().expect("not poisoned");
        state.is_over = count == 0;
        state.parser.process(&buffer[..count]);
        state.bytes.extend(&buffer[..count]);
        screen.changed.notify_all();
        if count == 0 {
            return;
        }
    }
}
