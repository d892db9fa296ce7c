//! The error of a tool and of the sandbox that it uses.

use std::fmt;

use rondo_protocol::diagnostic::Code;

/// Why a tool call failed. It is shown to the caller and contains nothing that the caller must not see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    pub code: Code,
    /// What happened and what to do instead.
    pub message: String,
    /// The tool's output before it failed.
    pub output: String,
}

impl Error {
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), output: String::new() }
    }

    #[must_use]
    pub fn with_output(self, output: String) -> Self {
        Self { output, ..self }
    }
}

/// The text for a model: the line `error RN1602: what happened`, then the output.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error {}: {}", self.code, self.message)?;
        if !self.output.is_empty() {
            write!(f, "\n{}", self.output)?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}
