//! The forms that a thread waits for, and answers to them.

use std::time::{Duration, Instant};

use rondo_core::conversation::rebuild;
use rondo_core::local::{Answerer, PersonAnswer, PersonSaid, forms, origin};
use rondo_core::resolved_roles;
use rondo_core::thread::OpenForm;
use rondo_protocol::Digest;
use rondo_protocol::diagnostic::Code;
use rondo_protocol::event;
use rondo_protocol::hint::{Hint, Operation, Verb};
use rondo_protocol::id::{FieldName, Status, ThreadId};
use rondo_protocol::workflow::types::Field;
use rondo_protocol::workflow::{Role, Workflow};
use rondo_store as store;
use rondo_store::{Read, Row};

use super::find_thread::{no_threads, root};
use crate::failure::Failure;
use crate::tell::word;

/// How long a thread may take between telling of a form and writing that it waits.
const SETTLING: Duration = Duration::from_secs(1);
const SETTLING_POLL: Duration = Duration::from_millis(5);

/// The form of a thread that somebody means.
pub struct ResolvedForm {
    /// The thread that continues with the answer: the one at the root of its tree.
    pub root: ThreadId,
    pub open: OpenForm,
    /// The workflow of the thread whose form it is.
    pub workflow: Workflow,
}

/// What names one of the forms of a thread. Without any, it is the only one that is open.
#[derive(Debug, Clone, Copy, Default)]
pub struct FormName<'n> {
    pub role: Option<&'n str>,
    pub lane: Option<&'n str>,
    pub digest: Option<Digest>,
}

/// Finds the form of `thread` that is named. Also returns the row of the thread at the root. Blocks for a second at most
/// if that runs: whoever heard of its form may answer at once.
///
/// # Errors
/// [`Code::NotWaiting`] or [`Code::AnswerUnclear`], or if the store is damaged.
pub fn resolve_form(
    store: &dyn Read,
    (thread, row): (ThreadId, Row),
    named: FormName<'_>,
) -> Result<(ResolvedForm, Row), Failure> {
    let of_child = row.parent.is_some().then(|| thread.clone());
    let (root, mut row) = root(store, (thread, row))?;
    let until = Instant::now() + SETTLING;
    while row.status == store::Status::Running && Instant::now() < until {
        std::thread::sleep(SETTLING_POLL);
        row = store.row(&root)?.ok_or_else(no_threads)?;
    }
    let open = chosen((&root, of_child.as_ref()), open_forms(&root, &row)?, named)?;
    let whose = open.thread.as_ref().map_or_else(|| Ok(Some(row.clone())), |thread| store.row(thread))?;
    let workflow = rebuild::beginning(store, &whose.ok_or_else(no_threads)?)?.workflow;
    Ok((ResolvedForm { root, open, workflow }, row))
}

/// An answer to a form that waits in the tree of `root`. It takes the digest along of the form that was found.
pub fn answer(root: &ThreadId, open: OpenForm, said: PersonSaid, by: Answerer) -> PersonAnswer {
    let form = open.digest(root);
    PersonAnswer { thread: open.thread, visit: open.visit, form, said, by }
}

/// The person whose process this is, by the name of the account.
pub fn this_person() -> Answerer {
    let mut accounts = ["USER", "LOGNAME"].into_iter().filter_map(|name| std::env::var(name).ok());
    let account = accounts.find(|name| !name.is_empty() && name.len() <= 64);
    Answerer::Person(account.unwrap_or_else(|| format!("uid {}", rustix::process::geteuid().as_raw())))
}

fn open_forms(thread: &ThreadId, row: &Row) -> Result<Vec<OpenForm>, Failure> {
    match row.status {
        store::Status::Waiting => Ok(origin(thread, row)?.forms),
        status => Err(not_waiting(thread, &word(&status))),
    }
}

pub(crate) fn not_waiting(thread: &ThreadId, state: &str) -> Failure {
    let failure = Failure::new(Code::NotWaiting, format!("thread {thread} does not wait for an answer: it is {state}"));
    match state {
        "stopped" => failure.with_hint(Hint::from(Operation::on(Verb::Resume, thread)).words(" continues it")),
        "running" => failure.with_hint("it can be answered once every lane waits"),
        _ => failure,
    }
}

/// The failure for an answer that is none to this kind of form.
pub fn other_kind(open: &OpenForm) -> Failure {
    let role = &open.visit.role;
    let message = if open.is_approval() {
        format!("{role} waits for the approval of a tool call: approve or refuse it")
    } else {
        format!("{role} waits for a form and not for an approval: answer with a status")
    };
    Failure::new(Code::AnswerUnclear, message)
}

/// The form that is meant of those that are open in the tree of `root`, or below it in `child`.
fn chosen(
    (root, child): (&ThreadId, Option<&ThreadId>),
    open: Vec<OpenForm>,
    FormName { role, lane, digest }: FormName<'_>,
) -> Result<OpenForm, Failure> {
    let is_meant = |open: &OpenForm| {
        (child.is_none() || open.thread.as_ref() == child)
            && role.is_none_or(|role| role == open.visit.role.as_str())
            && lane.is_none_or(|lane| lane == open.visit.lane.as_str())
            && digest.is_none_or(|digest| digest == open.digest(root))
    };
    let listed = |open: &[OpenForm], between: &str| {
        let all = open.iter().map(|open| answered(root, open));
        all.reduce(|listed, next| listed.words(between).then(next)).unwrap_or_default()
    };
    let thread = child.unwrap_or(root);
    let (mut meant, others): (Vec<_>, Vec<_>) = open.into_iter().partition(is_meant);
    match (meant.pop(), meant.len()) {
        (Some(open), 0) => Ok(open),
        (None, _) => {
            let message = format!("thread {thread} does not wait for that form");
            let hint = Hint::from("open: ").then(listed(&others, ", "));
            Err(Failure::new(Code::NotWaiting, message).with_hint(hint))
        }
        (Some(last), before) => {
            meant.push(last);
            let message = format!("{} forms of thread {thread} are open; which one?", before + 1);
            Err(Failure::new(Code::AnswerUnclear, message).with_hint(listed(&meant, "\n")))
        }
    }
}

/// What answers a form and no later one.
pub fn answer_to(thread: &ThreadId, open: &OpenForm) -> Operation {
    on_form(thread, open, if open.is_approval() { "approve" } else { "form" })
}

fn on_form(thread: &ThreadId, open: &OpenForm, key: &str) -> Operation {
    let of = open.thread.as_ref().unwrap_or(thread);
    Operation::on(Verb::Answer, of).with(key, open.digest(thread).to_string())
}

/// The same, and whose form it is.
fn answered(thread: &ThreadId, open: &OpenForm) -> Hint {
    let visit = &open.visit;
    let lane = if visit.lane.is_trunk() { String::new() } else { format!(" in {}", visit.lane) };
    Hint::from(on_form(thread, open, "form")).words(format!(" for {}{lane}", visit.role))
}

pub(crate) fn only_a_person(thread: &ThreadId, open: &OpenForm) -> Failure {
    let hint = Hint::from("tell them to look at it and type ").operation(answer_to(thread, open));
    Failure::new(Code::ApprovalMissing, "a tool call waits for approval, and only a person can give it")
        .with_hint(hint.words(" or `--refuse`"))
}

pub fn role<'w>(workflow: &'w Workflow, visit: &event::Visit) -> Result<&'w Role, Failure> {
    let unknown = || Failure::internal(format!("the workflow has no role {}", visit.role));
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
    let contracts = resolved_roles::body_readers(workflow).map_err(Failure::internal)?;
    let PersonSaid::Form(form) = &answer.said else { return Ok(()) };
    let Some(contract) = contracts.get(&answer.visit.role) else { return Ok(()) };
    let role = role(workflow, &answer.visit)?;
    if let Some(name) = ["status", "body"].into_iter().find(|name| form.fields.get(name).is_some()) {
        let message = format!("`{name}` is no field of the form: it stands beside the fields");
        return Err(Failure::new(Code::AnswerInvalid, message).with_hint(statuses(role)));
    }
    let read = forms::read(contract, &form.to_value());
    read.map(drop).map_err(|fault| Failure::new(fault.code, fault.message).with_hint(statuses(role)))
}

type Declared<'r> = (&'r Status, &'r [(FieldName, Field)]);

/// The fields that a form with this status has.
pub fn declared<'r>(role: &'r Role, status: &str) -> Result<Declared<'r>, Failure> {
    let found = role.output.iter().find(|(known, _)| known.as_str() == status);
    found.map(|(status, fields)| (status, fields.as_slice())).ok_or_else(|| {
        Failure::new(Code::AnswerInvalid, format!("the form has no status `{status}`")).with_hint(statuses(role))
    })
}
