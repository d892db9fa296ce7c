//! The forms that a thread waits for, and answers to them.

use rondo_protocol::diagnostic::Code;
use rondo_protocol::event;
use rondo_protocol::id::{FieldName, Status, ThreadId};
use rondo_protocol::workflow::types::Field;
use rondo_protocol::workflow::{Role, Workflow};

use super::find_thread::{no_threads, root};
use super::thread_row::origin;
use crate::conversation::rebuild;
use crate::failure::Failure;
use crate::local::{PersonAnswer, PersonSaid, forms};
use crate::resolved_roles;
use crate::store::{self, Read, Row};
use crate::tell::word;
use crate::thread::OpenForm;

/// The form of a thread that somebody means.
pub struct MeantForm {
    /// The thread that goes on with the answer: the one at the root of its tree.
    pub root: ThreadId,
    pub open: OpenForm,
    /// The workflow of the thread whose form it is.
    pub workflow: Workflow,
}

/// Finds the form of `thread` that a role and a lane name; if none are named, the only one. Also returns the row of
/// the thread at the root.
///
/// # Errors
/// [`Code::NotWaiting`] or [`Code::AnswerUnclear`], or if the store is damaged.
pub fn meant_form(
    store: &dyn Read,
    (thread, row): (ThreadId, Row),
    named: (Option<&str>, Option<&str>),
) -> Result<(MeantForm, Row), Failure> {
    let of_child = row.parent.is_some().then(|| thread.clone());
    let (root, row) = root(store, (thread, row))?;
    let open = open_forms(&root, &row)?;
    let open = open.into_iter().filter(|open| of_child.is_none() || open.thread == of_child).collect();
    let open = chosen(&root, open, named)?;
    let whose = open.thread.as_ref().map_or_else(|| Ok(Some(row.clone())), |thread| store.row(thread))?;
    let workflow = rebuild::beginning(store, &whose.ok_or_else(no_threads)?)?.workflow;
    Ok((MeantForm { root, open, workflow }, row))
}

/// The answer by the person whose process this is.
pub fn by_this_person(said: PersonSaid, OpenForm { thread, visit, .. }: OpenForm) -> PersonAnswer {
    PersonAnswer { thread, visit, said, person: person() }
}

/// The name of the account.
fn person() -> String {
    let mut accounts = ["USER", "LOGNAME"].into_iter().filter_map(|name| std::env::var(name).ok());
    let account = accounts.find(|name| !name.is_empty() && name.len() <= 64);
    account.unwrap_or_else(|| format!("uid {}", rustix::process::geteuid().as_raw()))
}

fn open_forms(thread: &ThreadId, row: &Row) -> Result<Vec<OpenForm>, Failure> {
    match row.status {
        store::Status::Waiting => Ok(origin(row).map(|origin| origin.forms).unwrap_or_default()),
        status => Err(not_waiting(thread, &word(&status))),
    }
}

pub fn not_waiting(thread: &ThreadId, state: &str) -> Failure {
    let failure = Failure::new(Code::NotWaiting, format!("thread {thread} does not wait for an answer: it is {state}"));
    match state {
        "stopped" => failure.with_hint("`rondo resume` continues it"),
        "running" => failure.with_hint("it can be answered once every lane waits"),
        _ => failure,
    }
}

/// The failure for an answer to a form of the other kind.
pub fn other_kind(open: &OpenForm, is_approval: bool) -> Failure {
    let role = &open.visit.role;
    let message = if is_approval {
        format!("{role} waits for the approval of a tool call: answer with `--approve` or `--refuse`")
    } else {
        format!("{role} waits for a form and not for an approval: answer with `--status`")
    };
    Failure::new(Code::AnswerUnclear, message)
}

/// The form that is meant.
fn chosen(
    thread: &ThreadId,
    open: Vec<OpenForm>,
    (role, lane): (Option<&str>, Option<&str>),
) -> Result<OpenForm, Failure> {
    let listed: Vec<String> = open.iter().map(|open| words_for(thread, open)).collect();
    let is_meant = |visit: &event::Visit| {
        role.is_none_or(|role| role == visit.role.as_str()) && lane.is_none_or(|lane| lane == visit.lane.as_str())
    };
    let mut meant: Vec<OpenForm> = open.into_iter().filter(|open| is_meant(&open.visit)).collect();
    match meant.len() {
        1 => meant.pop().ok_or_else(no_threads),
        0 => {
            let message = format!("thread {thread} does not wait for that form");
            Err(Failure::new(Code::NotWaiting, message).with_hint(format!("open: {}", listed.join(", "))))
        }
        count => {
            let message = format!("{count} forms of thread {thread} are open; which one?");
            Err(Failure::new(Code::AnswerUnclear, message).with_hint(listed.join("\n")))
        }
    }
}

/// The command line that means a form.
fn words_for(thread: &ThreadId, open: &OpenForm) -> String {
    let visit = &open.visit;
    let command = format!("rondo answer {} --role {}", open.thread.as_ref().unwrap_or(thread), visit.role);
    if visit.lane.is_trunk() { command } else { format!("{command} --lane '{}'", visit.lane) }
}

pub fn role<'w>(workflow: &'w Workflow, visit: &event::Visit) -> Result<&'w Role, Failure> {
    let unknown = || Failure::new(Code::InternalFault, format!("the workflow has no role {}", visit.role));
    workflow.role(visit.role.as_str()).ok_or_else(unknown)
}

pub fn statuses(role: &Role) -> String {
    let one = |(status, fields): &(Status, Vec<(FieldName, Field)>)| {
        let fields: Vec<String> = fields.iter().map(|(name, _)| name.to_string()).collect();
        if fields.is_empty() { status.to_string() } else { format!("{status} ({})", fields.join(", ")) }
    };
    let all: Vec<String> = role.output.iter().map(one).collect();
    format!("statuses: {}", all.join(", "))
}

/// Checks an answer by the contract of its role, before anything is started.
pub fn check(workflow: &Workflow, answer: &PersonAnswer) -> Result<(), Failure> {
    let contracts =
        resolved_roles::body_readers(workflow).map_err(|error| Failure::new(Code::InternalFault, error.to_string()))?;
    let PersonSaid::Form(form) = &answer.said else { return Ok(()) };
    let Some(contract) = contracts.get(&answer.visit.role) else { return Ok(()) };
    let role = role(workflow, &answer.visit)?;
    let invalid =
        |fault: rondo_protocol::call::Fault| Failure::new(fault.code, fault.message).with_hint(statuses(role));
    forms::read(contract, &form.to_value()).map(drop).map_err(invalid)
}

/// A status of a form, and its fields.
type Declared<'r> = (&'r Status, &'r [(FieldName, Field)]);

/// The fields that a form with this status has.
///
/// # Errors
/// [`Code::AnswerInvalid`] if the form has no such status.
pub fn declared<'r>(role: &'r Role, status: &str) -> Result<Declared<'r>, Failure> {
    let found = role.output.iter().find(|(known, _)| known.as_str() == status);
    found.map(|(status, fields)| (status, fields.as_slice())).ok_or_else(|| {
        Failure::new(Code::AnswerInvalid, format!("the form has no status `{status}`")).with_hint(statuses(role))
    })
}
