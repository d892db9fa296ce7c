//! Finds the sandbox of this machine by trying it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rondo_protocol::diagnostic::Code;
use tokio::sync::OnceCell;

use super::ProcessSettings;
use super::plan::Isolation;
use crate::error::Error;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sandbox {
    /// The layers in force; `None` = not enough of them, and nothing is started.
    pub isolation: Option<Isolation>,
    /// The Landlock version in force, at most 6.
    pub landlock: Option<u8>,
    /// Why better layers are missing, a line each.
    pub missing: Vec<String>,
}

impl Sandbox {
    /// Why nothing is started.
    pub(super) fn refusal(&self) -> Error {
        let missing =
            if self.missing.is_empty() { "nothing is known of it".to_owned() } else { self.missing.join("; ") };
        let message = format!(
            "programs are not started, because this system offers no sandbox around them ({missing}); an operator who \
             wants them all the same sets sandbox = \"off\" in [grant]"
        );
        Error::new(Code::SandboxMissing, message)
    }
}

/// On one line, as `rondo doctor` prints it.
impl fmt::Display for Sandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(isolation) = self.isolation else {
            return write!(f, "none ({})", self.missing.join("; "));
        };
        let namespaces = match isolation {
            Isolation::Bubblewrap => "namespaces by bubblewrap",
            Isolation::Namespaces => "namespaces",
            Isolation::Landlock => "no namespaces",
            Isolation::Off => return f.write_str("off"),
        };
        let landlock = self.landlock.map(|version| format!(", Landlock {version}")).unwrap_or_default();
        write!(f, "{namespaces}{landlock}, seccomp")
    }
}

/// The sandbox of this machine, as a launcher finds it: tried once in a process, whatever its programs may access.
pub(super) fn of(launcher: &Path) -> Arc<OnceCell<Sandbox>> {
    static TRIED: Mutex<BTreeMap<PathBuf, Arc<OnceCell<Sandbox>>>> = Mutex::new(BTreeMap::new());
    let mut tried = TRIED.lock().unwrap_or_else(PoisonError::into_inner);
    Arc::clone(tried.entry(launcher.to_owned()).or_default())
}

#[cfg(not(target_os = "linux"))]
pub(super) async fn choose(_: &ProcessSettings) -> Sandbox {
    Sandbox { isolation: None, landlock: None, missing: vec!["it is known for Linux only".to_owned()] }
}

#[cfg(target_os = "linux")]
pub(super) use probed::choose;

#[cfg(target_os = "linux")]
mod probed {
    use std::fs;
    use std::path::{Path, PathBuf};
    use std::time::Duration;

    use tempfile::TempDir;

    use super::super::launch::{self, Escape};
    use super::super::plan::Exit;
    use super::super::{Command, Finished, Processes};
    use super::{Isolation, ProcessSettings, Sandbox};

    /// The maximum time of the probe on a busy machine.
    const TIMEOUT: Duration = Duration::from_secs(30);

    /// Tries the kinds of sandbox, best first, and chooses the first that holds.
    pub(in super::super) async fn choose(settings: &ProcessSettings) -> Sandbox {
        let mut missing = Vec::new();
        for isolation in [Isolation::Bubblewrap, Isolation::Namespaces, Isolation::Landlock] {
            if isolation == Isolation::Bubblewrap && launch::bubblewrap_program().is_none() {
                missing.push("bubblewrap is not installed".to_owned());
                continue;
            }
            match tried(settings, isolation).await {
                Ok(()) => {
                    let landlock = launch::landlock_version(isolation);
                    return Sandbox { isolation: Some(isolation), landlock, missing };
                }
                Err(why) => missing.push(format!("{isolation:?}: {why}")),
            }
        }
        Sandbox { isolation: None, landlock: None, missing }
    }

    async fn tried(settings: &ProcessSettings, isolation: Isolation) -> Result<(), String> {
        let ground = ground().map_err(|error| error.to_string())?;
        let workspace = ground.path().join("workspace");
        let hidden = workspace.join("hidden");
        let settings = ProcessSettings {
            // The probe is the launcher.
            read: vec![settings.launcher.clone()],
            write: vec![PathBuf::from(".")],
            hidden: vec![hidden.clone(), workspace.join("missing")],
            workspace,
            read_only: Vec::new(),
            protected: Vec::new(),
            ceilings: crate::sandbox::process::Limits::default(),
            env: std::collections::BTreeMap::new(),
            launcher: settings.launcher.clone(),
            sandbox: true,
        };
        let text = |path: &Path| path.to_str().map(str::to_owned).ok_or("a path is not UTF-8");
        let outside = text(&ground.path().join("outside"))?;
        let argv = launch::probe(&text(&settings.launcher)?, &outside, &text(&hidden)?, std::process::id());
        let command = Command { timeout: TIMEOUT, ..Command::new(argv) };
        let processes = Processes::new(settings).with_isolation(isolation);
        // In a box, because a program that is run asks for the self-test too.
        let ended = Box::pin(processes.run(command)).await;
        let Finished { output, exit } = ended.map_err(|error| error.message)?;
        let escaped: Vec<Escape> =
            serde_json::from_str(&output).map_err(|_| format!("the probe ended with {exit:?}: {output}"))?;
        if exit == Exit::Code(0) && escaped.is_empty() {
            return Ok(());
        }
        Err(format!("a probe got out: {escaped:?}"))
    }

    fn ground() -> std::io::Result<TempDir> {
        let ground =
            tempfile::Builder::new().prefix("rondo-self-test-").tempdir_in(std::env::temp_dir().canonicalize()?)?;
        fs::create_dir(ground.path().join("workspace"))?;
        fs::write(ground.path().join("workspace/hidden"), "hidden")?;
        Ok(ground)
    }
}
