//! `rondo answer`: fills in a form that a thread waits for, and continues the thread. An attended run asks in place.

use std::collections::BTreeMap;
use std::path::Path;

use rondo::Run;
use rondo::core::shown_call::ShownCall;
use rondo::core::thread::OpenForm;
use rondo::core::{Ended, FilledForm, PersonAnswer, PersonSaid};
use rondo::host::answering::{
    self, FormName, ResolvedForm, check, declared, other_kind, resolve_form, role, statuses, this_person,
};
use rondo::host::continuing::ContinueTarget;
use rondo::protocol::diagnostic::Code;
use rondo::protocol::id::ThreadId;
use rondo::protocol::workflow::Role;
use rondo::protocol::workflow::types;
use rondo::protocol::{Digest, Value};
use rondo::run::configured_for;
use rondo::store;
use rondo::store::{Read, Row};

use super::files::read_text;
use super::find_thread::{Candidates, find_thread, no_threads};
use super::person::is_attended;
use super::progress::suspended;
use super::resume::{ContinueArgs, prepare};
use super::run_config::RunSpec;
use super::runner::{Task, TaskContext, show_task};
use super::{Exit, Failure, Output, form};

const MAX_BODY_BYTES: usize = 1 << 20;

/// Answer a form that a thread waits for, and continue the thread
#[derive(Debug, clap::Args)]
#[command(mut_arg("thread", |thread| thread.help(
    "A thread's id, a prefix of one, or `last` [default: the only one that waits]"
)))]
pub struct AnswerArgs {
    /// The role whose form it is, if several are open
    #[arg(long, value_name = "ROLE")]
    role: Option<String>,
    /// The lane of the form, if several are open
    #[arg(long, value_name = "LANE")]
    lane: Option<String>,
    /// The form by its digest, which `show` tells: an answer to what is no longer open is refused
    #[arg(long, value_name = "DIGEST", value_parser = digest)]
    form: Option<Digest>,
    /// The status of the answer; without one, a terminal asks
    #[arg(long, value_name = "STATUS")]
    status: Option<String>,
    /// A field of the answer: text, or JSON where its type asks for it
    #[arg(long = "field", value_name = "KEY=VALUE", requires = "status", conflicts_with_all = ["approve", "refuse"])]
    fields: Vec<String>,
    /// The text of the answer; `@file` takes a file's content
    #[arg(long, value_name = "TEXT", requires = "status", conflicts_with_all = ["approve", "refuse"])]
    body: Option<String>,
    /// Let the tool call be made that waits for approval
    #[arg(long, conflicts_with_all = ["status", "refuse"])]
    approve: bool,
    /// Do not let the tool call be made
    #[arg(long, conflicts_with = "status")]
    refuse: bool,
    /// Why not; the role that asked for the call reads it
    #[arg(long, value_name = "TEXT", requires = "refuse", conflicts_with_all = ["status", "approve"])]
    why: Option<String>,
    #[command(flatten)]
    pub(super) run: ContinueArgs,
}

pub fn answer(args: &AnswerArgs, output: &mut Output) -> Result<Exit, Failure> {
    let mut meant = None;
    let find = |store: &dyn Read| {
        let found = args.run.thread.as_deref().map_or_else(|| find_waiting(store), |word| find_thread(store, word))?;
        let named = FormName { role: args.role.as_deref(), lane: args.lane.as_deref(), digest: args.form };
        let (form, row) = resolve_form(store, found, named)?;
        let root = form.root.clone();
        meant = Some(form);
        Ok((root, row))
    };
    let (thread, run_spec, writing) = prepare(&args.run, ContinueTarget::Thread, find, output)?;
    let ResolvedForm { open, workflow, .. } = meant.ok_or_else(no_threads)?;
    let role = role(&workflow, &open.visit)?;
    let (is_approval, can_ask) = (open.is_approval(), is_attended(output));
    let said = match (&args.status, args.approve || args.refuse) {
        (Some(_), _) if is_approval => return Err(of_other_kind(&open)),
        (_, true) if !is_approval => return Err(of_other_kind(&open)),
        // Without the form's name, nothing says that this person has seen the call.
        (_, true) if can_ask && args.approve && args.form.is_none() && is_dangerous(&open) => form::ask(&open, role),
        (_, true) => Some(PersonSaid::Approval { is_allowed: args.approve, why: args.why.clone().unwrap_or_default() }),
        (Some(status), _) => Some(PersonSaid::Form(given(role, status, args)?)),
        (None, _) if can_ask => form::ask(&open, role),
        (None, _) if is_approval => return Err(of_other_kind(&open)),
        (None, _) => {
            let message = "the command does not say what the answer is: `--status` is missing";
            return Err(Failure::new(Code::AnswerUnclear, message).with_hint(statuses(role)));
        }
    };
    let Some(said) = said else { return Ok(Exit::Waiting) };
    let answer = answering::answer(&thread, open, said, this_person());
    check(&workflow, &answer)?;
    let task: Task = Box::new(|context| Box::pin(answer_thread(context, thread, answer, run_spec)));
    show_task(task, writing, &args.run.view, output)
}

async fn answer_thread(
    context: TaskContext,
    thread: ThreadId,
    answer: PersonAnswer,
    run_spec: RunSpec,
) -> Result<Exit, Failure> {
    let run_config = context.unless_stopped(configured_for(&context.rondo, &thread, &run_spec)).await?;
    let run = rondo::run::answer(&context.rondo, &thread, answer, run_spec, run_config).await?;
    follow_and_ask(&context, run).await
}

/// Shows a run to its end. At an attended terminal it asks for the forms that the thread waits for, one by one.
pub(super) async fn follow_and_ask(context: &TaskContext, mut run: Run) -> Result<Exit, Failure> {
    loop {
        let thread = run.thread().clone();
        let ended = context.follow(&mut run).await;
        let exit = Exit::of_ended(&ended);
        // Only an attended run has approvers.
        let open = match &ended {
            Ended::Waiting(forms) if run.run_spec().approvers.is_some() => forms.first().cloned(),
            _ => None,
        };
        let Some(open) = open else { return run.finish_recording(&ended).map(|()| exit) };
        let (workflow, _) = context.engine.definition(open.thread.as_ref().unwrap_or(&thread))?;
        let root = thread.clone();
        let asked = tokio::task::spawn_blocking(move || {
            let role = role(&workflow, &open.visit)?.clone();
            let filled = suspended(|| form::ask(&open, &role));
            let answer = filled.map(|said| answering::answer(&root, open, said, this_person()));
            answer.map(|answer| check(&workflow, &answer).map(|()| answer)).transpose()
        });
        let asked = asked.await.map_err(|error| Failure::new(Code::InternalFault, error.to_string()))?;
        let Some(answer) = asked? else { return run.finish_recording(&ended).map(|()| exit) };
        let run_config = context.unless_stopped(configured_for(&context.rondo, &thread, run.run_spec())).await?;
        run = run.answered(answer, run_config).await?;
    }
}

fn find_waiting(store: &dyn Read) -> Result<(ThreadId, Row), Failure> {
    let waiting = Candidates::among(store, |_, row| row.status == store::Status::Waiting && row.parent.is_none())?;
    waiting.only().map_err(|waiting| match waiting.count {
        0 => Failure::new(Code::NotWaiting, "no thread waits for a person"),
        count => Failure::new(Code::AnswerUnclear, format!("{count} threads wait for a person; which one?"))
            .with_hint("`rondo threads --waiting` lists them"),
    })
}

fn given(role: &Role, status: &str, args: &AnswerArgs) -> Result<FilledForm, Failure> {
    let invalid = |message: String| Failure::new(Code::AnswerInvalid, message).with_hint(statuses(role));
    let (status, declared) = declared(role, status)?;
    let field = |word: &String| -> Result<(String, Value), Failure> {
        let (name, text) = word.split_once('=').ok_or_else(|| invalid(format!("--field {word}: write key=value")))?;
        let found = declared.iter().find(|(known, _)| known.as_str() == name);
        let (_, field) = found.ok_or_else(|| invalid(format!("the status `{status}` has no field `{name}`")))?;
        let value = types::parse_input_text(name, field, &text_of(text)?).map_err(|fault| invalid(fault.message))?;
        Ok((name.to_owned(), value))
    };
    let mut fields = BTreeMap::new();
    for word in &args.fields {
        let (name, value) = field(word)?;
        if fields.insert(name.clone(), value).is_some() {
            return Err(Failure::new(Code::InputSyntax, format!("--field {name}: the field is given twice")));
        }
    }
    let body = args.body.as_deref().map_or(Ok(String::new()), text_of)?;
    Ok(FilledForm { status: status.clone(), fields: Value::Object(fields), body })
}

/// With the option that answers this kind of form.
fn of_other_kind(open: &OpenForm) -> Failure {
    let options = if open.is_approval() { "`--approve` or `--refuse`" } else { "`--status`" };
    other_kind(open).with_hint(format!("answer with {options}"))
}

fn digest(word: &str) -> Result<Digest, &'static str> {
    Digest::from_hex(word).ok_or("a form's digest has 64 hex digits; `rondo show` tells it")
}

fn is_dangerous(open: &OpenForm) -> bool {
    ShownCall::of_form(&open.form).is_some_and(|call| call.word.is_some())
}

fn text_of(word: &str) -> Result<String, Failure> {
    word.strip_prefix('@').map_or_else(|| Ok(word.to_owned()), |file| read_text(Path::new(file), MAX_BODY_BYTES))
}
