//! The errors of the engine.

use rondo_protocol::call::Fault;
use rondo_protocol::canonical;
use rondo_protocol::id::{RoleName, ThreadId};

use crate::thread::Ending;
use crate::{graph, resolved_roles, store};
/// An error of the engine.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// The store.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The stored data of the thread does not allow it to continue.
    #[error("{}", .0.message)]
    Fault(Fault),
    /// There is no thread with this id.
    #[error("there is no thread {thread}")]
    NoThread {
        /// The id.
        thread: ThreadId,
    },
    /// The thread is already driven, by this process or another.
    #[error("thread {thread} is running already")]
    Running {
        /// The id.
        thread: ThreadId,
    },
    /// The thread has ended, so that it cannot be cancelled.
    #[error("thread {thread} has ended already ({})", ending.outcome.name())]
    HasEnded {
        /// The id.
        thread: ThreadId,
        /// Its ending.
        ending: Box<Ending>,
    },
    /// The definition cannot be lowered.
    #[error(transparent)]
    Graph(#[from] graph::Error),
    /// A role cannot be resolved.
    #[error(transparent)]
    ResolvedRoles(#[from] resolved_roles::Error),
    /// A hook cannot be set up.
    #[error("the hook {node} cannot be set up: {what}")]
    Hook {
        /// Its node.
        node: String,
        /// The reason.
        what: String,
    },
    /// The operator has not declared the program of a hook.
    #[error("the hook {node} needs the program {program:?}, and rondo.toml has no [hook.{program}]")]
    HookProgram {
        /// Its node.
        node: String,
        /// The program's name, shortened for display.
        program: String,
    },
    /// A limit on money cannot be enforced if the price of a call is unknown.
    #[error(
        "a limit on money needs a price: the role {role} asks the model {model:?} ({id}), and no price of it is known"
    )]
    Unpriced {
        /// A role that uses the model.
        role: RoleName,
        /// The logical model.
        model: String,
        /// Its id at the provider.
        id: String,
    },
    /// A limit cannot be changed so.
    #[error("the limit {key} cannot be changed: {what}")]
    Limit {
        /// Its name.
        key: String,
        /// Why.
        what: String,
    },
    /// The operator's own limit is lower.
    #[error("the limit {key} cannot be raised: the operator's own limit is lower")]
    Ceiling {
        /// Its name.
        key: String,
    },
    /// A value has no canonical form.
    #[error("the input cannot be stored: {0}")]
    Input(#[from] canonical::Error),
    /// The thread pins a layout that this version does not support.
    #[error(transparent)]
    Layout(#[from] rondo_agent_kit::conversation::UnknownLayout),
}
