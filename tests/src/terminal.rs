//! A shell in a pseudo-terminal: what a person types there, and what the screen shows.
//!
//! Laws: each wait has an end, after which it fails with the screen; the shell and what it runs end with the terminal.

use std::io::{Read as _, Write as _};
use std::num::NonZeroU16;
use std::path::Path;
use std::process::Child;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pty_process::Size;
use pty_process::blocking::{Command, Pty};
use rustix::termios::{Termios, tcgetattr};
use vt100::{Parser, Screen};

/// What the shell writes when it waits for a command.
const PROMPT: &str = "$ ";

/// How long a wait may take.
const PATIENCE: Duration = Duration::from_mins(1);

/// A shell in a terminal of its own.
pub struct Terminal {
    shell: Child,
    pty: Arc<Pty>,
    shown: Arc<Shown>,
    /// The settings of the terminal at the first prompt.
    settings: Termios,
}

/// What the terminal has shown so far.
struct Shown {
    parser: Mutex<Parser>,
    changed: Condvar,
}

impl Shown {
    fn lock(&self) -> MutexGuard<'_, Parser> {
        self.parser.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Terminal {
    /// Starts a shell in `folder` with these variables and no others, and waits for its prompt.
    ///
    /// # Panics
    /// If that fails.
    pub fn start(folder: &Path, variables: &[(&str, &str)], (rows, columns): (u16, u16)) -> Self {
        let Ok((pty, inside)) = pty_process::blocking::open() else { panic!("there is no pseudo-terminal") };
        let size = pty.resize(Size::new(rows, columns));
        assert!(size.is_ok(), "the terminal takes no size");
        let command = Command::new("sh").arg("-i").current_dir(folder).env_clear();
        let command = command.env("PS1", PROMPT).env("TERM", "xterm-256color").envs(variables.iter().copied());
        let Ok(shell) = command.spawn(inside) else { panic!("there is no shell") };
        let parser = Mutex::new(Parser::new(cells(rows), cells(columns), 0));
        let shown = Arc::new(Shown { parser, changed: Condvar::new() });
        let (pty, heard) = (Arc::new(pty), Arc::clone(&shown));
        let from = Arc::clone(&pty);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // A terminal that nobody has open any more has no end of file, but an error.
            while let Ok(length) = (&*from).read(&mut bytes) {
                heard.lock().process(bytes.get(..length).unwrap_or_default());
                heard.changed.notify_all();
            }
        });
        let Ok(settings) = tcgetattr(&*pty) else { panic!("the terminal has no settings") };
        let terminal = Self { shell, pty, shown, settings };
        terminal.prompted();
        terminal
    }

    /// Types `text`, which may be a control character.
    ///
    /// # Panics
    /// If the terminal is gone.
    pub fn types(&self, text: &str) {
        assert!((&*self.pty).write_all(text.as_bytes()).is_ok(), "nobody reads the terminal");
    }

    /// Changes the size.
    ///
    /// # Panics
    /// If the terminal is gone.
    pub fn resize(&self, (rows, columns): (u16, u16)) {
        self.shown.lock().set_size(cells(rows), cells(columns));
        assert!(self.pty.resize(Size::new(rows, columns)).is_ok(), "the terminal takes no size");
    }

    /// Waits until the screen is like that.
    ///
    /// # Panics
    /// If it does not get so within a minute.
    pub fn until(&self, is_so: impl Fn(&Screen) -> bool) {
        let end = Instant::now() + PATIENCE;
        let mut parser = self.shown.lock();
        while !is_so(parser.screen()) {
            let left = end.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "the screen stays so:\n{}", parser.screen().contents());
            let waited = self.shown.changed.wait_timeout(parser, left);
            parser = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits until the shell waits for a command.
    ///
    /// # Panics
    /// As [`Terminal::until`].
    pub fn prompted(&self) {
        self.until(is_prompt);
    }

    /// Whether the shell waits for a command now.
    pub fn is_prompted(&self) -> bool {
        is_prompt(self.shown.lock().screen())
    }

    /// Whether the terminal is as it was at the first prompt: settings, cursor and screen.
    ///
    /// # Panics
    /// If the terminal is gone.
    pub fn is_restored(&self) -> bool {
        let Ok(now) = tcgetattr(&*self.pty) else { panic!("the terminal has no settings") };
        let parser = self.shown.lock();
        let (screen, was) = (parser.screen(), &self.settings);
        !screen.hide_cursor()
            && !screen.alternate_screen()
            && (now.local_modes, now.input_modes, now.output_modes)
                == (was.local_modes, was.input_modes, was.output_modes)
    }

    /// The screen as it is now.
    pub fn screen(&self) -> Screen {
        self.shown.lock().screen().clone()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // The session's other processes are told by the end of its leader.
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

/// Whether the cursor stands after a prompt, with nothing typed.
fn is_prompt(screen: &Screen) -> bool {
    let (row, column) = screen.cursor_position();
    let (_, columns) = screen.size();
    screen.rows(0, columns.get()).nth(usize::from(row)).is_some_and(|line| line.trim_end() == PROMPT.trim_end())
        && usize::from(column) == PROMPT.len()
}

fn cells(count: u16) -> NonZeroU16 {
    NonZeroU16::new(count).unwrap_or(NonZeroU16::MIN)
}
