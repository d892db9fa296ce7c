//! A folder in which `rondo` asks a server.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use rondo_tests::terminal::Terminal;
use serde_json::Value;

use crate::binary::{Finished, Place, Running, binary};

/// The most memory that a command may take, whatever it is sent.
const MAX_PEAK_KIB: u64 = 256 << 10;

/// How often a running process is looked at.
const LOOK: Duration = Duration::from_millis(1);

/// A folder with `workflow.yaml`, a store, and the environment in which `rondo` runs there.
pub struct Client {
    place: Place,
    variables: Vec<(String, String)>,
}

impl Client {
    /// A new folder with this workflow, whose models are served there.
    pub fn new(workflow: &str, base_url: &str, model: &str) -> Self {
        let place = Place::new();
        place.file("workflow.yaml", workflow);
        Self { place, variables: Vec::new() }.with("OPENAI_BASE_URL", base_url).with("RONDO_MODEL", model)
    }

    /// Sets a variable of the environment; a later value takes the place of an earlier one.
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.retain(|(known, _)| known != name);
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Takes a variable out of the environment.
    pub fn without(mut self, name: &str) -> Self {
        self.variables.retain(|(known, _)| known != name);
        self
    }

    /// Writes a file.
    pub fn file(&self, name: &str, text: &str) {
        self.place.file(name, text);
    }

    /// Writes a file that is no text.
    pub fn bytes(&self, name: &str, bytes: &[u8]) {
        self.place.file(name, bytes);
    }

    /// Writes the project's settings, and agrees to them.
    pub fn settings(&self, text: &str) {
        self.place.settings(text);
    }

    /// Writes the user's own settings.
    pub fn own_settings(&self, text: &str) {
        let folder = self.place.home().join(".config/rondo");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("config.toml"), text).unwrap();
    }

    /// The folder of the store.
    pub fn store(&self) -> PathBuf {
        self.place.store()
    }

    /// A terminal of that many rows and columns in the folder, whose shell finds `rondo`.
    pub fn terminal(&self, size: (u16, u16)) -> Terminal {
        let path = format!("{}:/usr/bin:/bin", binary().parent().unwrap().display());
        let home = self.place.home();
        let own = [("HOME", home.to_str().unwrap()), ("PATH", &path)];
        let given = self.variables.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        Terminal::start(&self.place.path(), &own.into_iter().chain(given).collect::<Vec<_>>(), size)
    }

    /// A command that is not started yet.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = self.place.command(words);
        command.envs(self.variables.iter().cloned());
        command
    }

    /// Starts a command.
    pub fn start(&self, words: &[&str]) -> Running {
        Running::of(self.command(words))
    }

    /// Runs a command to its end, and holds it to the limit on memory.
    pub fn run(&self, words: &[&str]) -> Finished {
        let running = self.start(words);
        let process = running.pid();
        let watching = std::thread::spawn(move || peak_kib(process));
        let finished = running.finish();
        let peak_kib = watching.join().unwrap();
        assert!(peak_kib < MAX_PEAK_KIB, "{peak_kib} KiB were resident");
        finished
    }

    /// The JSON lines of a command that must succeed.
    pub fn lines(&self, words: &[&str]) -> Vec<Value> {
        self.run(words).exits(0).json()
    }
}

/// The most memory that is seen to be resident until the process has ended; 0 where the system does not tell. The system
/// forgets it with the process, so that it is asked again and again.
fn peak_kib(process: u32) -> u64 {
    let mut peak_kib = 0;
    let of = |status: &str| {
        status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next()?.parse().ok())
    };
    while let Some(seen) =
        std::fs::read_to_string(format!("/proc/{process}/status")).ok().and_then(|status| of(&status))
    {
        peak_kib = peak_kib.max(seen);
        std::thread::sleep(LOOK);
    }
    peak_kib
}
