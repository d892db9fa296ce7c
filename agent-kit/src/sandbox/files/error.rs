use std::io;

use rondo_protocol::diagnostic::Code;
use rondo_protocol::digest::Digest;

use super::Kind;

/// Why a file could not be accessed. Paths are as the caller named them, or relative to the workspace: the target of a
/// link that leads outside is not revealed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{path:?} {why}")]
    Path {
        /// The path, shortened.
        path: String,
        why: &'static str,
    },
    #[error("{0:?} leads out of the workspace; name a path below the workspace's root, relative to it")]
    Outside(String),
    #[error("{path:?} may not be {access} here; stay within what is granted")]
    NotGranted {
        path: String,
        /// `read` or `written`.
        access: &'static str,
    },
    #[error("{0:?} is out of reach: it belongs to the operator or to version control; do without it")]
    Hidden(String),
    #[error(
        "{0:?} may be read but not written, because other programs take commands from it, or it is part of this run or of \
         a workflow that the user agreed to; leave it as it is and say what should be changed there. The user can name \
         the folder of another workflow in `write` of [grant]"
    )]
    ReadOnly(String),
    #[error("{path:?} is {kind}; {wanted}")]
    Kind {
        path: String,
        kind: Kind,
        /// What is needed instead.
        wanted: &'static str,
    },
    #[error("{0:?} is a symbolic link, and links are not followed for writing; name the file that it leads to")]
    Link(String),
    #[error("there is no {0:?}; list_files shows what there is")]
    Missing(String),
    #[error("{0:?} goes through too many links or names")]
    Endless(String),
    #[error("{path:?} has {size_bytes} bytes, more than the {max_bytes} that can be changed at once")]
    TooLarge { path: String, size_bytes: u64, max_bytes: u64 },
    #[error("{0:?} was changed by another process meanwhile and was left as it is; read it again")]
    Changed(String),
    #[error("cannot {doing} {path:?}: {source}")]
    System { path: String, doing: &'static str, source: io::Error },
}

impl Error {
    /// Identifies why a file could not be opened, to compare later; `None` = it does not exist.
    pub(super) fn reason(&self) -> Option<Digest> {
        let is_absent = match self {
            Self::Missing(_) => true,
            Self::System { source, .. } => source.kind() == io::ErrorKind::NotFound,
            _ => false,
        };
        (!is_absent).then(|| Digest::sha256(self.to_string().as_bytes()))
    }

    pub fn code(&self) -> Code {
        match self {
            Self::Path { .. } | Self::Endless(_) => Code::PathUnusable,
            Self::Outside(_) | Self::NotGranted { .. } => Code::OutsideWorkspace,
            Self::Hidden(_) | Self::ReadOnly(_) => Code::OutOfReach,
            Self::Kind { .. } | Self::Link(_) => Code::NotAFile,
            Self::Missing(_) => Code::NoSuchFile,
            Self::TooLarge { .. } => Code::NotText,
            Self::Changed(_) | Self::System { .. } => Code::FileAccessFailed,
        }
    }
}
