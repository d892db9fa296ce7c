//! Where attempts are made: a workspace with hidden files, a folder outside, and programs started with a sandbox or none.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::OnceLock;
use std::time::Duration;

use rondo_agent_kit::sandbox::process::{Answered, Command, Exit, Finished, Isolation, ProcessSettings, Processes};
use rondo_agent_kit::sandbox::protected;
use rondo_agent_kit::tool::Error;
use rondo_protocol::diagnostic::Code;
use tempfile::TempDir;

/// What is written in the file outside, and in those that are hidden.
pub const SECRET: &str = "the secret of the house";

/// The sandbox of one try: a kind, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sandboxed {
    By(Isolation),
    No,
}

/// Whether an attempt got out; `Err` = it could not be made.
pub type Attack = fn(&Ground) -> Result<bool, String>;

/// What a sandbox holds beside its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    pub protected: Vec<String>,
    /// Seen from the folder that holds the workspace.
    pub hidden: Vec<&'static str>,
    pub read_only: Vec<&'static str>,
}

impl Hold {
    pub fn usual() -> Self {
        Self {
            protected: protected(),
            hidden: vec!["outside/keys"],
            read_only: vec!["workspace/flow", "workspace/parts/one/flow.yaml", "workspace/later.yaml"],
        }
    }

    pub fn nothing() -> Self {
        Self { protected: Vec::new(), hidden: Vec::new(), read_only: Vec::new() }
    }
}

/// A workspace and what is around it.
pub struct Ground {
    folder: TempDir,
    pub sandboxed: Sandboxed,
    /// What else its sandbox holds; an attempt that concerns it is tried without it too.
    pub hold: Hold,
    pub runtime: tokio::runtime::Runtime,
}

impl Ground {
    pub fn new(sandboxed: Sandboxed) -> Self {
        let folder = tempfile::Builder::new().prefix("escapes").tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let ground = Self { folder, sandboxed, hold: Hold::usual(), runtime };
        for inner in ["outside", "workspace/.git", "workspace/.rondo", "workspace/deep/store", "workspace/src"] {
            fs::create_dir_all(ground.root().join(inner)).unwrap();
        }
        for inner in ["workspace/parts/one", "workspace/parts/two"] {
            fs::create_dir_all(ground.root().join(inner)).unwrap();
        }
        // A second folder that is granted, with keys that are hidden by the name of a link to them.
        for inner in ["second/keys", "workspace/flow"] {
            fs::create_dir_all(ground.root().join(inner)).unwrap();
        }
        for file in ["second/keys/one", "workspace/flow/part.yaml"] {
            fs::write(ground.root().join(file), SECRET).unwrap();
        }
        std::os::unix::fs::symlink("../second/keys", ground.outside().join("keys")).unwrap();
        fs::write(ground.workspace().join("parts/two/open"), "open").unwrap();
        for file in ["outside/secret", "workspace/.git/config", "workspace/.rondo/store", "workspace/rondo.toml"] {
            fs::write(ground.root().join(file), SECRET).unwrap();
        }
        fs::write(ground.root().join("workspace/deep/store/steps"), SECRET).unwrap();
        fs::write(ground.root().join("workspace/src/open"), "open").unwrap();
        ground
    }

    pub fn root(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap()
    }

    pub fn workspace(&self) -> PathBuf {
        self.root().join("workspace")
    }

    pub fn outside(&self) -> PathBuf {
        self.root().join("outside")
    }

    /// What confines every program of this ground.
    pub fn settings(&self) -> ProcessSettings {
        let launcher = std::env::current_exe().unwrap();
        // `.git` is not named: the sandbox hides it by itself.
        let hidden = [".rondo", "rondo.toml", "deep/store"].map(|name| self.workspace().join(name));
        ProcessSettings {
            read: vec![launcher.clone()],
            launcher,
            workspace: self.workspace(),
            write: vec![PathBuf::from("."), self.root().join("second")],
            hidden: hidden.into_iter().chain(self.below(&self.hold.hidden)).collect(),
            read_only: self.below(&self.hold.read_only),
            protected: self.hold.protected.clone(),
            ceilings: rondo_agent_kit::sandbox::process::Limits::default(),
            sandbox: self.sandboxed != Sandboxed::No,
            env: BTreeMap::from([("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())]),
        }
    }

    fn below(&self, paths: &[&str]) -> Vec<PathBuf> {
        paths.iter().map(|path| self.root().join(path)).collect()
    }

    pub fn processes(&self) -> Processes {
        self.processes_of(self.settings())
    }

    pub fn processes_of(&self, settings: ProcessSettings) -> Processes {
        match self.sandboxed {
            Sandboxed::By(isolation) => Processes::new(settings).with_isolation(isolation),
            Sandboxed::No => Processes::new(settings),
        }
    }

    /// Runs a command as a tool would.
    pub fn run(&self, command: Command) -> Result<Finished, Error> {
        self.runtime.block_on(self.processes().run(command))
    }

    /// Runs a command as a hook would.
    pub fn ask(&self, command: Command) -> Result<Answered, Error> {
        self.runtime.block_on(self.processes().ask(command))
    }

    /// Runs a script, and tells what it put out, however it ended.
    pub fn script(&self, script: &str) -> Result<String, String> {
        match self.run(shell(script)) {
            Ok(finished) => Ok(finished.output),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Runs this binary as an attacking program. It got out when it says so.
    pub fn attack(&self, arguments: &[&str]) -> Result<bool, String> {
        let launcher = std::env::current_exe().unwrap().to_str().unwrap().to_owned();
        let mut argv = vec![launcher, super::attack::VERB.to_owned()];
        argv.extend(arguments.iter().map(|&part| part.to_owned()));
        let finished = self.run(Command::new(argv)).map_err(|error| error.to_string())?;
        match (finished.exit, finished.output.trim()) {
            (Exit::Code(0), "out") => Ok(true),
            (Exit::Code(1), _) => Ok(false),
            (exit, output) => Err(format!("the attacking program ended with {exit:?}: {output}")),
        }
    }
}

/// A script as a command.
pub fn shell(script: &str) -> Command {
    let argv = ["/bin/sh", "-c", script].map(str::to_owned);
    Command { timeout: Duration::from_secs(30), ..Command::new(argv.to_vec()) }
}

/// A script started by nothing but the standard library, in a process group that is ended when this is dropped.
pub struct Plain(std::process::Child);

impl Plain {
    pub fn start(ground: &Ground, script: &str) -> Self {
        use std::os::unix::process::CommandExt;

        let mut command = std::process::Command::new("/bin/sh");
        command.args(["-c", script]).current_dir(ground.workspace()).process_group(0);
        Self(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap())
    }

    pub fn output(&mut self) -> String {
        std::io::read_to_string(self.0.stdout.as_mut().unwrap()).unwrap()
    }

    pub fn is_running(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }

    pub fn wait(&mut self) {
        self.0.wait().unwrap();
    }
}

impl Drop for Plain {
    fn drop(&mut self) {
        let group = rustix::process::Pid::from_raw(i32::try_from(self.0.id()).unwrap()).unwrap();
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        let _ = self.0.wait();
    }
}

/// The kinds of sandbox that this machine offers.
pub fn sandboxes() -> &'static [Isolation] {
    static WALLS: OnceLock<Vec<Isolation>> = OnceLock::new();
    WALLS.get_or_init(|| {
        let kinds = [Isolation::Bubblewrap, Isolation::Namespaces, Isolation::Landlock];
        let offered = |isolation: &Isolation| match Ground::new(Sandboxed::By(*isolation)).run(shell("true")) {
            Ok(_) => true,
            Err(error) => {
                assert_eq!(error.code, Code::SandboxMissing, "{isolation:?}: {error}");
                eprintln!("not tried here: a sandbox of {isolation:?}: {error}");
                false
            }
        };
        kinds.into_iter().filter(offered).collect()
    })
}

/// The attempt gets past no kind of sandbox.
pub fn held(attack: Attack) -> Result<(), String> {
    for isolation in sandboxes() {
        let ground = Ground::new(Sandboxed::By(*isolation));
        if attack(&ground).map_err(|why| format!("{isolation:?}: it could not be tried: {why}"))? {
            return Err(format!("it got past a sandbox of {isolation:?}"));
        }
    }
    Ok(())
}

/// Where the sandbox does not hold what is concerned, and all the rest, the attempt succeeds.
pub fn succeeds_without_hold(attack: Attack) -> Result<(), String> {
    // The last kind holds more than it is asked for: beside what is hidden nothing is made.
    let Some(isolation) = sandboxes().iter().find(|isolation| isolation.has_namespaces()) else {
        return succeeds(attack);
    };
    let mut ground = Ground::new(Sandboxed::By(*isolation));
    ground.hold = Hold::nothing();
    if attack(&ground)? { Ok(()) } else { Err("it fails without what it is held by, and proves nothing".to_owned()) }
}

/// Without a sandbox the attempt succeeds.
pub fn succeeds(attack: Attack) -> Result<(), String> {
    if attack(&Ground::new(Sandboxed::No))? {
        Ok(())
    } else {
        Err("it fails without a sandbox, and proves nothing".to_owned())
    }
}

pub fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
