//! A workspace with something to protect in it and beside it.

use std::fs;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use rondo_agent_kit::sandbox::files::{Access, Workspace};
use rondo_agent_kit::tool::{Error, Invocation, Tool, file_tools};
use rondo_protocol::canonical;
use rondo_protocol::diagnostic::Code;
use rustix::fs::{CWD, FileType, Mode, RenameFlags};
use serde_json::{Value, json};
use tempfile::TempDir;

/// What an attempt comes to.
pub type Outcome = Result<(), String>;

/// What must not be read.
pub const SECRET: &str = "SECRET";
/// What must not be written.
pub const PWNED: &str = "PWNED";
/// How long an attempt may take that would wait for ever without the sandbox.
const PATIENCE: Duration = Duration::from_secs(30);

/// What is protected, from the folder that holds the workspace.
const PROTECTED: [&str; 6] = [
    "outside/secret.txt",
    "root/.git/config",
    "root/.rondo/journal",
    "root/rondo.toml",
    "root/vendor/.git/hooks/pre-commit",
    "root/worktree/.git",
];

/// Folders in which nothing may appear.
const SEALED: [&str; 4] = ["outside", "root/.git", "root/.git/hooks", "root/.rondo"];

pub struct Scene {
    /// Holds `root`, which is the workspace, and `outside`.
    folder: TempDir,
    tools: Vec<Arc<dyn Tool>>,
    before: Vec<Vec<String>>,
}

impl Scene {
    pub fn new() -> Self {
        Self::with(&["."], &["."])
    }

    /// With these grants.
    pub fn with(read: &[&str], write: &[&str]) -> Self {
        let paths = |paths: &[&str]| paths.iter().map(PathBuf::from).collect();
        let hidden = paths(&[".rondo", "rondo.toml", "../trust"]);
        Self::made(|_| {}, |_| Access { read: paths(read), write: paths(write), hidden, ..Access::default() })
    }

    /// Prepared by somebody, with a sandbox of one's own; both are told the folder that holds `root` and `outside`.
    pub fn made(prepare: impl FnOnce(&Path), access: impl FnOnce(&Path) -> Access) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        for path in ["outside", "root/src", "root/docs", "root/.git/hooks"] {
            fs::create_dir_all(at.join(path)).unwrap();
        }
        for path in PROTECTED {
            fs::create_dir_all(at.join(path).parent().unwrap()).unwrap();
            fs::write(at.join(path), format!("{SECRET}\n")).unwrap();
        }
        fs::write(at.join("root/src/main.rs"), "fn main() {}\n").unwrap();
        fs::write(at.join("root/docs/guide.md"), "harmless\n").unwrap();
        prepare(at);
        let workspace = Arc::new(Workspace::open(&at.join("root"), access(at)).unwrap());
        let tools = file_tools(&workspace);
        let mut scene = Self { folder, tools, before: Vec::new() };
        scene.before = scene.sealed();
        scene
    }

    pub fn root(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    pub fn outside(&self) -> PathBuf {
        self.folder.path().join("outside")
    }

    /// An absolute path outside, as text.
    pub fn secret(&self) -> String {
        self.outside().join("secret.txt").to_str().unwrap().to_owned()
    }

    /// Makes a link in the workspace.
    pub fn link(self, name: &str, target: impl AsRef<Path>) -> Self {
        symlink(target, self.root().join(name)).unwrap();
        self
    }

    /// Makes a named pipe in the workspace.
    pub fn pipe(self, name: &str) -> Self {
        rustix::fs::mknodat(CWD, self.root().join(name), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        self
    }

    /// Calls a tool.
    pub fn call(&self, tool: &str, arguments: &Value) -> Result<String, Error> {
        let tool = self.tools.iter().find(|known| known.spec().name == tool).unwrap();
        let arguments = canonical::from_slice(arguments.to_string().as_bytes()).unwrap();
        let invocation = Invocation::new("key");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(tool.run(arguments, &invocation)).map(|content| content.text)
    }

    /// The sandbox turns a call away with this code, and nothing was changed.
    pub fn refuses(&self, tool: &str, arguments: &Value, code: Code) -> Outcome {
        match self.call(tool, arguments) {
            Ok(result) => Err(format!("{tool} was let through: {result}")),
            Err(error) if error.code != code => Err(format!("not {code} but {error}")),
            Err(error) if error.to_string().contains(SECRET) => Err(format!("the error tells: {error}")),
            Err(_) => self.unharmed(),
        }
    }

    pub fn refuses_to_read(&self, path: &str, code: Code) -> Outcome {
        self.refuses("read_file", &json!({ "path": path }), code)?;
        self.refuses("search_files", &json!({ "path": path, "pattern": "." }), code)
    }

    pub fn refuses_to_write(&self, path: &str, code: Code) -> Outcome {
        self.refuses("write_file", &json!({ "path": path, "text": PWNED }), code)?;
        self.refuses("edit_file", &json!({ "path": path, "old": SECRET, "new": PWNED }), code)?;
        let removal = format!("--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-{SECRET}\n+{PWNED}\n");
        // An absolute path has no prefix that would be taken off.
        let removal = if path.starts_with('/') { removal.replace(" a//", " /").replace(" b//", " /") } else { removal };
        self.refuses("apply_patch", &json!({ "patch": removal }), code)
    }

    pub fn refuses_to_list(&self, arguments: &Value, code: Code) -> Outcome {
        self.refuses("list_files", arguments, code)
    }

    /// The tool answers, and the answer tells nothing.
    pub fn tells_nothing(&self, tool: &str, arguments: &Value) -> Outcome {
        match self.call(tool, arguments) {
            Ok(result) if result.contains(SECRET) => Err(format!("{tool} tells: {result}")),
            Ok(_) | Err(_) => self.unharmed(),
        }
    }

    /// Whether everything that is protected is as it was, and no temporary file lies about.
    pub fn unharmed(&self) -> Outcome {
        for path in PROTECTED {
            if fs::read_to_string(self.folder.path().join(path)).unwrap_or_default() != format!("{SECRET}\n") {
                return Err(format!("{path} was changed"));
            }
        }
        if self.sealed() != self.before {
            return Err(format!("something appeared: {:?}", self.sealed()));
        }
        let mut left = vec![self.root()];
        while let Some(folder) = left.pop() {
            for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
                if entry.file_name().to_string_lossy().starts_with(".rondo-") {
                    return Err(format!("{} was left behind", entry.path().display()));
                }
                if entry.file_type().unwrap().is_dir() {
                    left.push(entry.path());
                }
            }
        }
        Ok(())
    }

    fn sealed(&self) -> Vec<Vec<String>> {
        SEALED.iter().map(|folder| names(&self.folder.path().join(folder))).collect()
    }

    /// What a tool without a sandbox would read.
    pub fn reads(&self, path: &str) -> Outcome {
        // Not to the end: some files have none.
        let mut text = Vec::new();
        let file = fs::File::open(self.root().join(path)).map_err(|error| error.to_string())?;
        file.take(1 << 16).read_to_end(&mut text).map_err(|error| error.to_string())?;
        contains(&String::from_utf8_lossy(&text), SECRET)
    }

    /// What a tool without a sandbox would write; `goal` is what is meant, from the folder that holds the workspace.
    pub fn writes(&self, path: &str, goal: &str) -> Outcome {
        fs::write(self.root().join(path), PWNED).map_err(|error| error.to_string())?;
        contains(&fs::read_to_string(self.folder.path().join(goal)).unwrap_or_default(), PWNED)
    }

    /// What a tool without a sandbox would list.
    pub fn lists(&self, path: &str) -> Outcome {
        contains(&names(&self.root().join(path)).join("\n"), "secret.txt")
    }

    /// Makes `swap` and `decoy`, a folder that holds a harmless `secret.txt` and a link to the one outside, for
    /// [`Scene::while_swapping`].
    pub fn swappable(self) -> Self {
        fs::create_dir(self.root().join("swap")).unwrap();
        fs::write(self.root().join("swap/secret.txt"), "harmless\n").unwrap();
        let outside = self.outside();
        self.link("decoy", outside)
    }

    /// Puts each in the other's place, in one step.
    pub fn swap(&self) {
        let (swap, decoy) = (self.root().join("swap"), self.root().join("decoy"));
        rustix::fs::renameat_with(CWD, swap, CWD, decoy, RenameFlags::EXCHANGE).unwrap();
    }

    /// Tries something many times while another thread swaps.
    pub fn while_swapping(&self, tries: usize, attempt: impl Fn(&Self) -> Outcome) -> Outcome {
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    self.swap();
                }
            });
            let outcome = (0..tries).try_for_each(|_| attempt(self));
            is_over.store(true, Ordering::Relaxed);
            outcome
        })
    }
}

pub fn contains(text: &str, wanted: &str) -> Outcome {
    if text.contains(wanted) { Ok(()) } else { Err(format!("{wanted} was not reached: {text}")) }
}

pub fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().map(Result::unwrap);
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Fails instead of waiting for ever.
pub fn in_time(attempt: fn() -> Outcome) -> Outcome {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(attempt()));
    receiver.recv_timeout(PATIENCE).map_err(|_| "it waits for ever".to_owned())?
}
