//! Failures of a verb: diagnostics of files, or one fault with a code.

use std::collections::BTreeMap;

use rondo_core::conversation::rebuild;
use rondo_core::exit::Exit;
use rondo_core::local::SubscribeError;
use rondo_core::{Error, resolved_roles};
use rondo_protocol::call;
use rondo_protocol::canonical;
use rondo_protocol::diagnostic::{Code, Diagnostic};
use rondo_protocol::hint::{Hint, Operation, Verb};
use rondo_protocol::workflow::types::InputFault;
use rondo_settings::trust;
use rondo_store as store;

/// Why something could not be done.
#[derive(Clone, PartialEq)]
pub enum Failure {
    /// Files have faults.
    Diagnostics(Faulty),
    /// Anything else.
    Fault(Fault),
}

/// Files with faults.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Faulty {
    /// The faults, in source order.
    pub faults: Vec<Diagnostic>,
    /// The texts of these files, by name, if they were read.
    pub sources: BTreeMap<String, String>,
}

/// A fault without a place in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The exit code.
    pub exit: Exit,
    /// The code of the fault.
    pub code: Code,
    /// The message.
    pub message: String,
    /// What to do about it.
    pub hint: Option<Hint>,
}

impl Failure {
    /// A fault whose code decides the exit.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self::Fault(Fault { exit: Exit::of_fault(code), code, message: message.into(), hint: None })
    }

    /// The failure for what only a defect of rondo leads to.
    #[expect(clippy::needless_pass_by_value, reason = "`map_err` names it")]
    pub(crate) fn internal(error: impl ToString) -> Self {
        Self::new(Code::InternalFault, error.to_string())
    }

    /// The failure for an input that a workflow does not take.
    pub fn of_inputs(faults: &[InputFault]) -> Self {
        let code = faults.first().map_or(Code::InvalidInput, |fault| fault.code);
        let words: Vec<String> = faults.iter().map(ToString::to_string).collect();
        let hints: Vec<&str> = faults.iter().filter_map(|fault| fault.hint.as_deref()).collect();
        let failure = Self::new(code, words.join("; "));
        if hints.is_empty() { failure } else { failure.with_hint(hints.join("\n")) }
    }

    /// Adds a hint.
    #[must_use]
    pub fn with_hint(self, hint: impl Into<Hint>) -> Self {
        self.with(|fault| Fault { hint: Some(hint.into()), ..fault })
    }

    /// Says of what part it is.
    #[must_use]
    pub fn within(self, part: &str) -> Self {
        self.with(|fault| Fault { message: format!("{part}: {}", fault.message), ..fault })
    }

    /// Sets another exit.
    #[must_use]
    pub fn with_exit(self, exit: Exit) -> Self {
        self.with(|fault| Fault { exit, ..fault })
    }

    fn with(self, change: impl FnOnce(Fault) -> Fault) -> Self {
        match self {
            Self::Fault(fault) => Self::Fault(change(fault)),
            faulty @ Self::Diagnostics(_) => faulty,
        }
    }

    /// The code of the fault, or of the first of them: its page says more.
    pub fn code(&self) -> Code {
        match self {
            Self::Fault(fault) => fault.code,
            Self::Diagnostics(faulty) => faulty.faults.first().map_or(Code::InternalFault, |fault| fault.code),
        }
    }

    /// What is wrong, without the code of a fault.
    pub fn message(&self) -> String {
        match self {
            Self::Fault(fault) => fault.message.clone(),
            Self::Diagnostics(_) => self.to_string(),
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<Hint> {
        match self {
            Self::Fault(fault) => fault.hint.clone(),
            Self::Diagnostics(faulty) => faulty.faults.first()?.hint.as_deref().map(Hint::from),
        }
    }

    /// The exit code.
    pub fn exit(&self) -> Exit {
        match self {
            Self::Diagnostics(_) => Exit::Invalid,
            Self::Fault(fault) => fault.exit,
        }
    }
}

/// The code and the message, without the hint: for use in another message.
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

/// The message and the hint, as the end of a `main` shows them.
impl std::fmt::Debug for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")?;
        self.hint().map_or(Ok(()), |hint| write!(f, "\n  {hint}"))
    }
}

impl std::error::Error for Failure {}

impl From<Faulty> for Failure {
    fn from(faulty: Faulty) -> Self {
        Self::Diagnostics(faulty)
    }
}

impl From<store::Error> for Failure {
    fn from(error: store::Error) -> Self {
        let failure = Self::new(error.code(), error.to_string()).with_exit(Exit::of_store(&error));
        match error {
            store::Error::Busy { .. } => failure.with_hint(
                Hint::from("wait until it has ended; ").operation(Operation::new(Verb::Show)).words(" works meanwhile"),
            ),
            store::Error::ImportUnderWay => failure.with_hint(
                "wait until it has ended; what an interrupted one wrote is removed when the store is next opened",
            ),
            store::Error::Conflict { .. } => failure
                .with_hint(Hint::from(Operation::new(Verb::Show)).words(" shows the current state of the thread")),
            store::Error::Damaged(_) => failure.with_hint(store::if_damaged()),
            store::Error::Io { .. } => {
                let hint = Hint::from("a store needs a folder with room that you may read and write; ");
                failure
                    .with_hint(hint.operation(Operation::new(Verb::Again).with("store", "DIR")).words(" uses another"))
            }
            _ => failure,
        }
    }
}

impl From<rebuild::Error> for Failure {
    fn from(error: rebuild::Error) -> Self {
        match error {
            rebuild::Error::Store(error) => error.into(),
            other => Self::internal(other),
        }
    }
}

impl From<trust::Error> for Failure {
    fn from(error: trust::Error) -> Self {
        Self::new(Code::NotTrusted, error.to_string())
    }
}

impl From<trust::secret::Error> for Failure {
    fn from(error: trust::secret::Error) -> Self {
        let code = if error.may_pass() { Code::StoreUnusable } else { Code::StoreForeign };
        Self::new(code, error.to_string())
    }
}

impl From<call::Fault> for Failure {
    fn from(fault: call::Fault) -> Self {
        let failure = Self::new(fault.code, fault.message).with_exit(Exit::of_class(fault.class));
        fault.hint.into_iter().fold(failure, Self::with_hint)
    }
}

impl From<SubscribeError> for Failure {
    fn from(error: SubscribeError) -> Self {
        let message = error.to_string();
        match error {
            SubscribeError::Store(error) => error.into(),
            SubscribeError::NoThread { .. } => Self::new(Code::ThreadUnknown, message),
            SubscribeError::NoEvent { .. } => Self::new(Code::RequestUnreadable, message),
        }
    }
}

impl From<canonical::Error> for Failure {
    fn from(error: canonical::Error) -> Self {
        Self::internal(error)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let message = error.to_string();
        match error {
            Error::Store(error) => error.into(),
            Error::NoThread { .. } => Self::new(Code::ThreadUnknown, message),
            Error::Running { thread } => {
                let show = Operation::on(Verb::Show, &thread).choosing("follow");
                Self::new(Code::StoreBusy, message).with_hint(Hint::from(show).words(" watches it"))
            }
            Error::HasEnded { .. } => Self::new(Code::ThreadEnded, message),
            Error::ResolvedRoles(resolved_roles::Error::UnresolvedModel { .. }) => Self::new(Code::NoProvider, message),
            Error::HookProgram { program, .. } => Self::new(Code::HookProgramUnknown, message)
                .with_hint(format!("look at what it is to do, then declare it as [hook.{program}] in rondo.toml")),
            Error::Hook { .. } => Self::new(Code::HookSettings, message).with_exit(Exit::Invalid),
            Error::Unpriced { model, .. } => Self::new(Code::PriceUnknown, message).with_hint(format!(
                "say it as price = {{ input, output }} of [model.{model}] in your own settings or in a rondo.toml that you \
                 agreed to, or take the limit out"
            )),
            Error::Limit { .. } => Self::new(Code::LimitUnclear, message),
            Error::Ceiling { .. } => {
                let hint = Hint::from("it is [limits] of the settings; ").operation(Operation::new(Verb::Doctor));
                Self::new(Code::LimitCeiling, message).with_hint(hint.words(" prints it"))
            }
            Error::Fault(fault) => fault.hint.into_iter().fold(Self::new(fault.code, message), Self::with_hint),
            Error::Graph(_) | Error::ResolvedRoles(_) | Error::Layout(_) | Error::Input(_) => Self::internal(message),
        }
    }
}
