//! Why something was not done that was asked of this process: diagnostics of a file, or one fault with a code.

use std::collections::BTreeMap;

use rondo_protocol::diagnostic::{Code, Diagnostic};

use crate::exit::Exit;

/// Why a verb did not do what was asked.
#[derive(Debug, Clone, PartialEq)]
pub enum Failure {
    /// Files have faults.
    Diagnostics(Faulty),
    /// Anything else.
    Fault(Fault),
}

/// Files with faults.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Faulty {
    /// What is wrong, in source order.
    pub faults: Vec<Diagnostic>,
    /// The texts of the files they are in, by name as far as they were read.
    pub sources: BTreeMap<String, String>,
}

/// A fault that is not at a place in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// How the process ends.
    pub exit: Exit,
    /// Which kind of fault.
    pub code: Code,
    /// What happened.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
}

impl Failure {
    /// A fault whose code decides the exit.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self::Fault(Fault { exit: Exit::of_fault(code), code, message: message.into(), hint: None })
    }

    /// The same with words on what to do.
    #[must_use]
    pub fn with_hint(self, hint: impl Into<String>) -> Self {
        match self {
            Self::Fault(fault) => Self::Fault(Fault { hint: Some(hint.into()), ..fault }),
            faulty @ Self::Diagnostics(_) => faulty,
        }
    }

    /// The same with another exit.
    #[must_use]
    pub fn with_exit(self, exit: Exit) -> Self {
        match self {
            Self::Fault(fault) => Self::Fault(Fault { exit, ..fault }),
            faulty @ Self::Diagnostics(_) => faulty,
        }
    }

    /// How the process ends.
    pub fn exit(&self) -> Exit {
        match self {
            Self::Diagnostics(_) => Exit::Invalid,
            Self::Fault(fault) => fault.exit,
        }
    }
}

/// Its words alone, for where another message holds them.
impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Fault(fault) => write!(f, "{}: {}", fault.code, fault.message),
            Self::Diagnostics(faulty) => {
                let told: Vec<String> = faulty.faults.iter().map(ToString::to_string).collect();
                f.write_str(&told.join("; "))
            }
        }
    }
}

impl From<Faulty> for Failure {
    fn from(faulty: Faulty) -> Self {
        Self::Diagnostics(faulty)
    }
}
