//! Where an attempt happens: a stranger's folder, the home of whoever runs the program in it, and a place outside that
//! nothing may touch.

use std::cell::RefCell;
use std::fs;
use std::io::{ErrorKind, Read as _};
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::binary::{Finished, Running, binary};

/// Keys of the victim, which must not leave.
pub const KEY: &str = "sk-victims-own-key-0815";
pub const OTHER_KEY: &str = "ghp-victims-other-key-4711";

/// The user that nobody is on Linux.
const NOBODY: u32 = 65534;
/// A user who is neither the victim nor root.
pub const STRANGER: u32 = 54321;

const SETPRIV: &str = "/usr/bin/setpriv";

/// What stands in the file outside.
pub const MINE: &str = "mine";

/// Who runs the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    /// The user of the tests.
    Own,
    /// Another user than root, of whom the tests are.
    Nobody,
}

/// The program in a place where other users find it too.
pub struct Program {
    path: PathBuf,
    _folder: Option<tempfile::TempDir>,
}

impl Program {
    /// As it is for the user of the tests.
    pub fn own() -> Self {
        Self { path: binary(), _folder: None }
    }

    /// A copy for another user; `None` where nobody can take the place of one.
    pub fn for_nobody() -> Option<Self> {
        if !rustix::process::geteuid().is_root() || !Path::new(SETPRIV).is_file() {
            println!("skipped: only root can take the place of another user, and needs setpriv");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let path = folder.path().join("rondo");
        if fs::hard_link(binary(), &path).is_err() {
            fs::copy(binary(), &path).unwrap();
        }
        Some(Self { path, _folder: Some(folder) })
    }
}

/// The place of one attempt.
pub struct Scene<'p> {
    folder: tempfile::TempDir,
    program: &'p Program,
    /// Who runs the program.
    pub who: Who,
    listener: TcpListener,
    /// What does not belong to the victim.
    kept: RefCell<Vec<PathBuf>>,
    environment: RefCell<Vec<(String, String)>>,
}

impl<'p> Scene<'p> {
    /// A new one.
    pub fn new(program: &'p Program, who: Who) -> Self {
        let memory = Path::new("/dev/shm");
        let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        for part in ["work", "home", "outside"] {
            fs::create_dir(folder.path().join(part)).unwrap();
            fs::set_permissions(folder.path().join(part), fs::Permissions::from_mode(0o755)).unwrap();
        }
        fs::write(folder.path().join("outside/victim"), MINE).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        Self { folder, program, who, listener, kept: RefCell::default(), environment: RefCell::default() }
    }

    /// The stranger's folder, in which the program is run.
    pub fn work(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join("work")
    }

    /// The victim's home.
    pub fn home(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join("home")
    }

    /// What nothing may touch: it holds `victim`.
    pub fn outside(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join("outside")
    }

    /// The folder that holds all of them.
    pub fn root(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap()
    }

    /// The file that what must not run would make.
    pub fn marker(&self) -> PathBuf {
        self.outside().join("marker")
    }

    /// Host and port of a server that must not be asked.
    pub fn address(&self) -> String {
        self.listener.local_addr().unwrap().to_string()
    }

    /// A text with `{marker}`, `{outside}`, `{work}`, `{home}` and `{address}` filled in.
    pub fn filled(&self, text: &str) -> String {
        let path = |path: PathBuf| path.to_str().unwrap().to_owned();
        let parts = [
            ("{marker}", path(self.marker())),
            ("{outside}", path(self.outside())),
            ("{work}", path(self.work())),
            ("{home}", path(self.home())),
            ("{address}", self.address()),
        ];
        parts.iter().fold(text.to_owned(), |text, (name, value)| text.replace(name, value))
    }

    /// Writes a file of the stranger's folder, filled in.
    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        self.put(&self.work().join(name), text)
    }

    /// Writes a file anywhere, filled in, with its folders.
    pub fn put(&self, path: &Path, text: &str) -> PathBuf {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, self.filled(text)).unwrap();
        path.to_owned()
    }

    /// The victim's own settings.
    pub fn user(&self, text: &str) {
        self.put(&self.home().join(".config/rondo/config.toml"), text);
    }

    /// A file that stays with a user who is neither the victim nor root.
    pub fn give_away(&self, path: &Path) {
        std::os::unix::fs::lchown(path, Some(STRANGER), Some(STRANGER)).unwrap();
        self.keep(path);
    }

    /// A file that stays with whom it belongs to.
    pub fn keep(&self, path: &Path) {
        self.kept.borrow_mut().push(path.to_owned());
    }

    /// A variable of the victim's environment, from here on.
    pub fn variable(&self, name: &str, value: &str) {
        self.environment.borrow_mut().push((name.to_owned(), self.filled(value)));
    }

    /// The victim's environment.
    pub fn variables(&self) -> Vec<(String, String)> {
        let home = self.home().to_str().unwrap().to_owned();
        let fixed = [
            ("HOME", home.as_str()),
            ("PATH", "/usr/local/bin:/usr/bin:/bin"),
            ("OPENAI_API_KEY", KEY),
            ("GITHUB_TOKEN", OTHER_KEY),
            // Who is asked by mistake never answers.
            ("RONDO_IDLE_TIMEOUT", "2s"),
            ("RONDO_TOTAL_TIMEOUT", "3s"),
        ];
        let fixed = fixed.map(|(name, value)| (name.to_owned(), value.to_owned()));
        fixed.into_iter().chain(self.environment.borrow().iter().cloned()).collect()
    }

    /// What stands before the words of a command.
    pub fn program(&self) -> Vec<String> {
        let program = self.program.path.to_str().unwrap().to_owned();
        match self.who {
            Who::Own => vec![program],
            Who::Nobody => {
                let id = NOBODY.to_string();
                [SETPRIV, "--reuid", &id, "--regid", &id, "--clear-groups", &program].map(str::to_owned).to_vec()
            }
        }
    }

    /// A command of the victim in `folder`, not yet started.
    pub fn command_in(&self, folder: &Path, words: &[&str]) -> Command {
        self.settle();
        let program = self.program();
        let mut command = Command::new(&program[0]);
        command.args(&program[1..]).args(words).current_dir(folder).env_clear().envs(self.variables());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs the program in the stranger's folder.
    pub fn run(&self, words: &[&str]) -> Finished {
        self.run_in(&self.work(), words)
    }

    /// Runs the program in `folder`.
    pub fn run_in(&self, folder: &Path, words: &[&str]) -> Finished {
        Running::of(self.command_in(folder, words)).finish()
    }

    /// Holds a command to be refused with that exit code and a code of a diagnostic.
    #[track_caller]
    pub fn refused(&self, words: &[&str], exit: i32, code: &str) -> Finished {
        let refused = self.run(words).exits(exit);
        let told = format!("{}{}", refused.stderr, refused.text());
        assert!(told.contains(code), "{words:?} does not say {code}: {told}");
        refused
    }

    /// Agrees to what `words` name: nothing = the settings, a workflow, `--server NAME`, `--store`.
    #[track_caller]
    pub fn trust(&self, words: &[&str]) {
        self.trust_in(&self.work(), words);
    }

    /// As [`trust`](Self::trust), in `folder`.
    #[track_caller]
    pub fn trust_in(&self, folder: &Path, words: &[&str]) {
        let digest = self.digest_in(folder, words);
        self.run_in(folder, &[&["trust", "--yes", &digest], words].concat()).exits(0);
    }

    /// The digest that `rondo trust` shows.
    #[track_caller]
    pub fn digest(&self, words: &[&str]) -> String {
        self.digest_in(&self.work(), words)
    }

    #[track_caller]
    fn digest_in(&self, folder: &Path, words: &[&str]) -> String {
        let shown = self.run_in(folder, &[&["trust", "--json"], words].concat());
        shown.event("trust")["digest"].as_str().unwrap().to_owned()
    }

    /// Gives everything to the victim but what was given away.
    pub fn settle(&self) {
        if self.who == Who::Own {
            return;
        }
        let mut left = vec![self.work(), self.home(), self.outside()];
        while let Some(path) = left.pop() {
            let Ok(about) = fs::symlink_metadata(&path) else { continue };
            if !self.kept.borrow().contains(&path) && about.uid() != NOBODY {
                std::os::unix::fs::lchown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
            }
            if about.is_dir() {
                left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            }
        }
    }

    /// What was sent to the server that must not be asked; `None` = nobody connected.
    pub fn heard(&self) -> Option<String> {
        match self.listener.accept() {
            Ok((mut stream, _)) => {
                stream.set_nonblocking(false).unwrap();
                stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
                let mut bytes = vec![0; 1 << 16];
                let read = stream.read(&mut bytes).unwrap_or_default();
                Some(String::from_utf8_lossy(&bytes[..read]).into_owned())
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => None,
            Err(error) => panic!("{error}"),
        }
    }

    /// What was done outside, if anything: a file made or changed, or a server asked.
    pub fn harm(&self) -> Option<String> {
        let outside = self.outside();
        for entry in fs::read_dir(&outside).unwrap() {
            let name = entry.unwrap().file_name();
            let is_known = name == "victim" || self.kept.borrow().contains(&outside.join(&name));
            if !is_known {
                return Some(format!("{} was made outside", name.display()));
            }
        }
        if fs::read_to_string(outside.join("victim")).ok().as_deref() != Some(MINE) {
            return Some("the file outside was changed".to_owned());
        }
        if fs::metadata(outside.join("victim")).unwrap().mode() & 0o777 != 0o644 {
            return Some("the mode of the file outside was changed".to_owned());
        }
        self.heard().map(|heard| format!("the server was asked: {heard}"))
    }
}

/// The events of that name in lines of which some may be none.
pub fn events(finished: &Finished, name: &str) -> Vec<Value> {
    let lines = finished.lines.iter().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter(|event| event["event"] == name).collect()
}
