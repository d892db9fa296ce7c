//! Exit codes: the only place that maps an ending, a fault or a signal to a number.

use rondo_protocol::call::FaultClass;
use rondo_protocol::diagnostic::Code;
use rondo_protocol::event::Outcome;
use strum::VariantArray;

use crate::local::Ended;
use crate::store;

/// How the process ends. The numbers are part of the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, VariantArray)]
#[repr(u8)]
pub enum Exit {
    /// Done.
    Done = 0,
    /// The workflow ended in `fail`, or was cancelled.
    Failed = 1,
    /// The command line, an input, a file or the settings are invalid.
    Invalid = 2,
    /// Something is not permitted.
    Denied = 3,
    /// A limit was reached.
    Limit = 4,
    /// A provider is unavailable or broke its contract, a script ran out, or a recording lacks a request. The thread
    /// can be resumed.
    Provider = 5,
    /// The store is damaged.
    Damaged = 6,
    /// Another process holds the store, or changed the thread.
    Busy = 7,
    /// A tool with effects may or may not have run.
    InDoubt = 8,
    /// Input or output failed. The thread can be resumed.
    InputOutput = 9,
    /// The thread waits for a person.
    Waiting = 75,
    /// Ended by SIGINT.
    Interrupted = 130,
    /// Ended by SIGTERM.
    Terminated = 143,
}

impl Exit {
    /// Every exit, by number.
    pub const ALL: &[Self] = Self::VARIANTS;

    /// The number.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The exit of a run.
    pub fn of_ended(ended: &Ended) -> Self {
        match ended {
            Ended::Finished(ending) if ending.outcome == Outcome::Done => Self::Done,
            Ended::Finished(_) => Self::Failed,
            Ended::Stopped(fault) if fault.class == FaultClass::Store || fault.code == Code::HookDenied => {
                Self::of_fault(fault.code)
            }
            Ended::Stopped(fault) => Self::of_class(fault.class),
            Ended::Waiting(_) => Self::Waiting,
        }
    }

    /// The exit of a fault by its class.
    pub fn of_class(class: FaultClass) -> Self {
        match class {
            FaultClass::RateLimit
            | FaultClass::Server
            | FaultClass::Timeout
            | FaultClass::Network
            | FaultClass::Refused
            | FaultClass::Contract
            | FaultClass::ScriptEnd => Self::Provider,
            FaultClass::Limit => Self::Limit,
            FaultClass::Denied => Self::Denied,
            FaultClass::InDoubt => Self::InDoubt,
            FaultClass::Hook | FaultClass::Store | FaultClass::Recording => Self::InputOutput,
            FaultClass::Cancelled => Self::Interrupted,
        }
    }

    /// The exit of a fault by its code: the hundreds of its number identify the subject.
    pub fn of_fault(code: Code) -> Self {
        let hundreds = code.as_str().get(2..4).and_then(|digits| digits.parse::<u8>().ok()).unwrap_or_default();
        match (code, hundreds) {
            (Code::ScriptEnd | Code::NotRecorded | Code::StepTimeout | Code::FormExpired, _) | (_, 10 | 11) => {
                Self::Provider
            }
            (Code::StoreDamaged, _) => Self::Damaged,
            (Code::StoreBusy | Code::StoreConflict | Code::NotWaiting | Code::NotRunning | Code::PortTaken, _) => {
                Self::Busy
            }
            (Code::Interrupted, _) => Self::Interrupted,
            (Code::ToolInDoubt, _) => Self::InDoubt,
            (Code::HookProgramUnknown | Code::HookDenied | Code::TokenUnusable, _) | (_, 17) => Self::Denied,
            (Code::HookVerb | Code::ClusterAddress, _) => Self::Invalid,
            (Code::WriteFailed | Code::InternalFault | Code::RecordingFailed, _) | (_, 13 | 15 | 16 | 21) => {
                Self::InputOutput
            }
            (_, 12) => Self::Limit,
            _ => Self::Invalid,
        }
    }

    /// The exit of a fault of the store.
    pub fn of_store(error: &store::Error) -> Self {
        match error {
            store::Error::Damaged { .. } => Self::Damaged,
            store::Error::Unsafe { .. } => Self::Denied,
            store::Error::Conflict { .. }
            | store::Error::ImportEnded
            | store::Error::ImportUnderWay
            | store::Error::CollectionEnded
            | store::Error::Busy { .. } => Self::Busy,
            _ => Self::InputOutput,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_interface() {
        let codes: Vec<u8> = Exit::ALL.iter().map(|exit| exit.code()).collect();
        assert_eq!(codes, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 75, 130, 143]);
    }

    #[test]
    fn faults_end_as_the_interface_says() {
        for (code, exit) in [
            (Code::YamlSyntax, 2),
            (Code::MissingInput, 2),
            (Code::SettingsKey, 2),
            (Code::ScriptEnd, 5),
            (Code::NoProvider, 5),
            (Code::ContractBroken, 5),
            (Code::HookProgramUnknown, 3),
            (Code::HookDenied, 3),
            (Code::HookProgramFailed, 9),
            (Code::ThreadLimit, 4),
            (Code::RenderFailed, 4),
            (Code::StepTimeout, 5),
            (Code::StoreBusy, 7),
            (Code::ThreadUnknown, 2),
            (Code::WriteFailed, 9),
            (Code::CassetteCut, 2),
            (Code::NotRecorded, 5),
            (Code::RecordingRefused, 2),
            (Code::RecordingFailed, 9),
        ] {
            assert_eq!(Exit::of_fault(code).code(), exit, "{code}");
        }
    }

    #[test]
    fn store_faults_have_their_exits() {
        assert_eq!(Exit::of_store(&store::Damage::new("").into()), Exit::Damaged);
        assert_eq!(Exit::of_store(&store::Error::Busy { pid: 1 }), Exit::Busy);
        assert_eq!(Exit::of_store(&store::Error::Poisoned { what: String::new() }), Exit::InputOutput);
    }
}
