//! The plan for the launcher, and its reports.
//!
//! The plan goes through a pipe that the program never gets: two lengths, the plan as JSON, and the standard input of
//! the program. The reports come back through another pipe, as JSON Lines.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use serde::{Deserialize, Serialize};

const FRAME_MAX_BYTES: usize = 64 << 20;

/// The layers of the sandbox. All but [`Isolation::Off`] include Landlock and seccomp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    Bubblewrap,
    /// Namespaces of our own.
    Namespaces,
    /// No namespaces. Hidden paths are excluded entry by entry: a program neither lists a folder that contains a hidden
    /// path nor creates anything in it, and creates nothing in a folder that contains a read-only path. So nothing is
    /// created directly in a granted folder, where protected names would be.
    Landlock,
    Off,
}

impl Isolation {
    pub fn has_namespaces(self) -> bool {
        matches!(self, Self::Bubblewrap | Self::Namespaces)
    }
}

/// The limits of a program. The first four apply to each process, `processes` to the whole tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Time on a processor.
    pub cpu: Duration,
    /// Private memory. Address space is not limited: runtimes reserve much more than they use.
    pub memory_bytes: u64,
    pub file_bytes: u64,
    pub open_files: u64,
    /// Processes and threads.
    pub processes: u64,
    /// The output after which it is ended; how much is kept is another limit.
    pub output_bytes: u64,
}

impl Limits {
    /// The lower of each.
    #[must_use]
    pub fn at_most(self, other: &Self) -> Self {
        Self {
            cpu: self.cpu.min(other.cpu),
            memory_bytes: self.memory_bytes.min(other.memory_bytes),
            file_bytes: self.file_bytes.min(other.file_bytes),
            open_files: self.open_files.min(other.open_files),
            processes: self.processes.min(other.processes),
            output_bytes: self.output_bytes.min(other.output_bytes),
        }
    }
}

impl Default for Limits {
    /// Enough to build and test a large project.
    fn default() -> Self {
        Self {
            cpu: Duration::from_mins(30),
            memory_bytes: 8 << 30,
            file_bytes: 2 << 30,
            open_files: 4096,
            processes: 1024,
            output_bytes: 1 << 30,
        }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Plan {
    pub isolation: Isolation,
    /// Whether the program has a proxy.
    pub has_proxy: bool,
    pub launcher: PathBuf,
    pub argv: Vec<String>,
    pub env: BTreeMap<String, String>,
    /// `None` = the private home folder.
    pub working_dir: Option<PathBuf>,
    /// Without links. The first stage replaces an empty path by the private home folder.
    pub workspace: PathBuf,
    pub read: Vec<PathBuf>,
    /// Among them the workspace, if all of it may be written.
    pub write: Vec<PathBuf>,
    /// What else may be written, relative to the workspace. A missing path is made.
    pub declared: Vec<PathBuf>,
    /// In folders without links. Of a link, the target is listed too.
    pub hidden: Vec<PathBuf>,
    /// Existing read-only paths in writable places.
    pub read_only: Vec<PathBuf>,
    /// Paths that cannot be created, nor written if they exist.
    pub kept: Vec<PathBuf>,
    /// The parent of private folders.
    pub temporary: PathBuf,
    /// The private folder of this run, made by the first stage.
    pub private: PathBuf,
    pub limits: Limits,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    Code(i32),
    Signal(i32),
}

impl From<ExitStatus> for Exit {
    fn from(status: ExitStatus) -> Self {
        status.code().map_or_else(|| Self::Signal(status.signal().unwrap_or_default()), Self::Code)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Report {
    /// The program was not started, because the sandbox could not be set up.
    NoSandbox(String),
    NotStarted(String),
    Multiplied,
    Ended(Exit),
}

impl Plan {
    /// `TMPDIR` and `HOME` of the program.
    pub fn home(&self) -> PathBuf {
        self.private.join("home")
    }

    /// The part of the private folder for masks; the program cannot access it.
    pub fn void(&self) -> PathBuf {
        self.private.join("void")
    }

    pub fn writes_workspace(&self) -> bool {
        self.write.contains(&self.workspace)
    }

    pub fn frame(&self, stdin: &[u8]) -> io::Result<Vec<u8>> {
        let plan = serde_json::to_vec(self)?;
        let length = |part: &[u8]| {
            let length = u32::try_from(part.len()).ok().filter(|_| part.len() <= FRAME_MAX_BYTES);
            length.map(u32::to_be_bytes).ok_or_else(|| io::Error::other("its input is too long"))
        };
        Ok([&length(&plan)?, &length(stdin)?, plan.as_slice(), stdin].concat())
    }

    /// Reads a plan and the standard input, and not a byte more.
    pub fn read(from: &mut impl Read) -> io::Result<(Self, Vec<u8>)> {
        let mut length = || -> io::Result<usize> {
            let mut bytes = [0; 4];
            from.read_exact(&mut bytes)?;
            let length = usize::try_from(u32::from_be_bytes(bytes)).map_err(io::Error::other)?;
            if length > FRAME_MAX_BYTES { Err(io::Error::other("the frame is too long")) } else { Ok(length) }
        };
        let (mut plan, mut stdin) = (vec![0; length()?], vec![0; length()?]);
        from.read_exact(&mut plan)?;
        from.read_exact(&mut stdin)?;
        Ok((serde_json::from_slice(&plan)?, stdin))
    }
}

impl Report {
    pub fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let mut line = serde_json::to_vec(self)?;
        line.push(b'\n');
        to.write_all(&line)?;
        to.flush()
    }

    /// The first of the launcher's reports, ignoring anything else: a failed stage reports before the stage that waits for
    /// it.
    pub fn first(bytes: &[u8]) -> Option<Self> {
        bytes.split(|byte| *byte == b'\n').find_map(|line| serde_json::from_slice(line).ok())
    }
}
