//! The error of a tool and of the sandbox that it uses.

use rondo_protocol::diagnostic::Code;

/// Why a tool call failed. It is shown to the caller and contains nothing that the caller must not see.
///
/// The text for a model: the line `error RN1602: what happened`, then the output.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("error {code}: {message}{}{output}", if .output.is_empty() { "" } else { "\n" })]
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
