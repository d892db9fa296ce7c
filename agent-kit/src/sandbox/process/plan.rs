//! What the launcher is told and what it tells.
//!
//! The plan goes through a pipe that the program never has: a frame of two lengths, the plan as JSON, and the bytes
//! that the program is to read. The reports come back through another, a line of JSON each.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The longest plan, and the longest input of a program.
const FRAME_MAX_BYTES: usize = 64 << 20;

/// Which layers the sandbox is made of, from the outside in. All but [`Isolation::Off`] have Landlock and seccomp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// Namespaces made by bubblewrap.
    Bubblewrap,
    /// Namespaces of our own.
    Namespaces,
    /// No namespaces. What is hidden is left out of what is granted, entry by entry: beside a hidden path, a nested one
    /// too, a program neither lists the folder nor creates anything in it; beside what is read-only it lists the folder
    /// and creates nothing in it. So nothing is created right in a granted folder, where protected names would be.
    Landlock,
    /// No sandbox at all, on the operator's word.
    Off,
}

impl Isolation {
    /// Whether the program has namespaces of its own.
    pub fn has_namespaces(self) -> bool {
        matches!(self, Self::Bubblewrap | Self::Namespaces)
    }
}

/// What a program may use. The first four hold for each process, `processes` for the whole tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Time on a processor.
    pub cpu: Duration,
    /// Memory that is its own. Address space is not bounded: runtimes reserve much more than they use.
    pub memory_bytes: u64,
    /// The size of a file that it writes.
    pub file_bytes: u64,
    /// Open files.
    pub open_files: u64,
    /// Processes and threads.
    pub processes: u64,
    /// What it puts out before it is ended. How much of that is kept is another bound.
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

/// What of the workspace is writable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Writable {
    Nothing,
    /// Relative to the workspace.
    Paths(Vec<PathBuf>),
    Workspace,
}

/// What becomes of a program's two streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Streams {
    /// One output, in order of arrival.
    Together,
    /// Frames that say which it was.
    Apart,
    /// The same, and what the program reads comes in by the way that the frames go out, for as long as it runs.
    Live,
}

/// All that the launcher needs to know.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Plan {
    pub isolation: Isolation,
    pub streams: Streams,
    /// Whether the program is given a proxy. Then what it puts out goes out as frames in any case.
    pub has_proxy: bool,
    pub launcher: PathBuf,
    pub argv: Vec<String>,
    pub env: BTreeMap<String, String>,
    /// None is the program's part of the private folder.
    pub working_dir: Option<PathBuf>,
    /// Without links. An empty one is filled in by the first stage with the program's part of the private folder: there is
    /// no other.
    pub workspace: PathBuf,
    pub writable: Writable,
    pub read: Vec<PathBuf>,
    pub write: Vec<PathBuf>,
    /// In folders without links. One that is a link itself is hidden where that leads, which is listed too.
    pub hidden: Vec<PathBuf>,
    /// What exists and is not written, where it would be.
    pub read_only: Vec<PathBuf>,
    /// What is kept from being made, and if it exists, from being written.
    pub kept: Vec<PathBuf>,
    /// Where private folders are made.
    pub temporary: PathBuf,
    /// The private folder of this run, filled in by the first stage.
    pub private: PathBuf,
    pub limits: Limits,
}

/// How a program ended by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// It exited.
    Code(i32),
    /// A signal ended it.
    Signal(i32),
}

/// What the launcher tells. The first report but `Sandboxed` is how it ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Report {
    /// The sandbox stands, with this version of Landlock.
    Sandboxed(u8),
    /// The program was not started because the sandbox could not be put up.
    NoSandbox(String),
    /// The program was not started.
    NotStarted(String),
    Multiplied,
    /// What was hidden from it was replaced from outside, and it was ended.
    Unmasked(PathBuf),
    Ended(Exit),
}

impl Plan {
    /// The frame that [`Plan::read`] reads.
    pub fn frame(&self, stdin: &[u8]) -> io::Result<Vec<u8>> {
        let plan = serde_json::to_vec(self)?;
        let mut frame = Vec::with_capacity(8 + plan.len() + stdin.len());
        for part in [plan.as_slice(), stdin] {
            let length = u32::try_from(part.len()).ok().filter(|_| part.len() <= FRAME_MAX_BYTES);
            let length = length.ok_or_else(|| io::Error::other("its input is too long"))?;
            frame.extend_from_slice(&length.to_be_bytes());
        }
        frame.extend_from_slice(&plan);
        frame.extend_from_slice(stdin);
        Ok(frame)
    }

    /// Reads a plan and what the program is to read, and not a byte more.
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

    /// The reports in what the launcher has written. What is not one is passed over.
    pub fn read_all(bytes: &[u8]) -> Vec<Self> {
        bytes.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect()
    }
}
