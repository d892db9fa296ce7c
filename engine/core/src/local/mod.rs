//! The local driver: runs threads in this process.
//!
//! [`Engine`] starts, resumes and cancels threads. One event loop per thread carries out what its machine decides, and
//! decides nothing itself; `visit` carries out one visit. Law `durable_first`: no acknowledgement, non-provisional
//! event or further call that depends on a step precedes its sync. Law `one_effect`: a journaled call is never
//! repeated.

mod account;
mod child;
mod commits;
mod deletion;
mod engine;
mod error;
mod event_log;
mod event_loop;
mod files;
mod fork;
pub mod forms;
mod hook_notes;
mod hook_paths;
mod hub;
mod in_flight;
mod journal;
mod limits;
mod model_calls;
mod past;
mod replay;
mod reply_memory;
mod restore;
mod resume_hint;
mod retrace;
mod retry;
mod run_config;
mod sink;
mod stop;
mod thread_handle;
mod tool_calls;
mod tool_role;
mod visit;

pub use engine::Engine;
pub use error::Error;
pub use event_log::{end, finished};
pub use event_loop::Ended;
pub use files::{FileRules, take_files};
pub use fork::{ChangedStep, Edited, ForkPlan, ForkRequest, Unshared, plan as plan_fork};
pub use forms::{Answerer, FilledForm, PersonAnswer, PersonSaid};
pub use hub::{Listener, SubscribeError, Subscription, Topic, unreadable};
pub use in_flight::{CallInFlight, ModelInFlight, ToolInFlight, VisitInFlight, in_flight};
pub use limits::{RaisedLimit, RaisedLimits, known_limit, limited};
pub use past::{StoredPast, origin, spent};
pub use retrace::retrace;
pub use retry::attempts_of;
pub use run_config::{Labels, NewThread, RunConfig};
use sink::{Position, Sink};
pub use thread_handle::Running;
pub use thread_handle::{Cancelled, Reservation, Resumed, Stopper, ThreadHandle};
