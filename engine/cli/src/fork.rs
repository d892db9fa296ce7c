use std::path::PathBuf;

use rondo::core::conversation::rebuild;
use rondo::core::local::{Edited, ForkPlan, ForkRequest, plan_fork};
use rondo::host::continuing::ContinueTarget;
use rondo::protocol::diagnostic::Code;
use rondo::protocol::digest::Kind;
use rondo::protocol::id::ThreadId;
use rondo::protocol::object::Start;
use rondo::store::{Read, Row};
use rondo::tell::plural;
use rondo::views::fork::fork_line;

use super::files::{absolute, read_text};
use super::find_thread::{find_current, no_threads};
use super::input::changed_input;
use super::resume::{ContinueArgs, prepare, resume_thread};
use super::run::run_thread;
use super::run_config::RunSpec;
use super::runner::{Task, TaskContext, show_task};
use super::spending::cost_text;
use super::{Exit, Failure, Output, workflow, working_folder};

const MAX_ANSWER_BYTES: usize = 8 << 20;

/// Start a new thread from a step of another one, with a changed file, input or answer
#[derive(Debug, clap::Args)]
#[command(mut_arg("thread", |thread| thread.help(
    "A thread's id, a prefix of one, or `last` [default: the one not ended, else the last]"
)))]
pub struct ForkArgs {
    /// The last step to share: its number, a prefix of its digest, or `last` [default: the last one that stays as
    /// it is]
    #[arg(long, value_name = "STEP")]
    at: Option<String>,
    /// Continue under this workflow
    #[arg(long, value_name = "FILE")]
    with: Option<String>,
    /// An input to change
    #[arg(short, long = "input", value_name = "KEY=VALUE")]
    input: Vec<String>,
    /// Take the text of this file as the answer of the step that `--at` names, or of the last one
    #[arg(long, value_name = "FILE", conflicts_with_all = ["with", "input"])]
    answer: Option<PathBuf>,
    /// Show what would be shared, changed and run again, and do nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    pub(super) run: ContinueArgs,
}

pub fn fork(args: &ForkArgs, output: &mut Output) -> Result<Exit, Failure> {
    let here = working_folder()?;
    let loaded = args.with.as_deref().map(|name| workflow::load(name, &here)).transpose()?;
    let word = args.run.thread.as_deref();
    let answer = args.answer.as_deref().map(|file| read_text(file, MAX_ANSWER_BYTES)).transpose()?;
    let planned = |store: &dyn Read| -> Result<(ThreadId, Row, ForkRequest, ForkPlan), Failure> {
        let (thread, row) = find_current(store, word)?;
        let at = args.at.as_deref().map(|at| step(store, &thread, &row, at)).transpose()?;
        let definition = match (&loaded, args.input.is_empty()) {
            (None, true) => None,
            (Some(loaded), _) => Some((loaded.checked.workflow.clone(), loaded.checked.policy.clone())),
            (None, false) => Some((rebuild::beginning(store, &row)?.workflow, rebuild::policy(store, &row)?)),
        };
        let edited = definition.map(|(workflow, policy)| {
            let input = rebuild::object::<Start>(store, Kind::Start, row.start)?.input;
            let input = Some(changed_input(&args.input, &workflow, input)?);
            let file = loaded.as_ref().map(|loaded| absolute(&loaded.path, &here));
            Ok::<_, Failure>(Edited { workflow, policy, input, file })
        });
        let edited = edited.transpose()?;
        let request = ForkRequest { at, edited, answer: answer.clone(), ..ForkRequest::default() };
        let plan = plan_fork(store, &thread, &request)?;
        Ok((thread, row, request, plan))
    };
    if args.dry_run {
        let view = args.run.place.copied()?.existing()?;
        let (thread, row, request, plan) = planned(view.store.as_ref())?;
        let text = || plan_text(&thread, &row, &plan, request.answer.is_some());
        return output.show(&fork_line(&thread, &plan), text).map(|()| Exit::Done);
    }
    let mut meant = None;
    let find = |store: &dyn Read| {
        let (thread, row, request, plan) = planned(store)?;
        meant = Some((request, plan));
        Ok((thread, row))
    };
    let subject = ContinueTarget::Fork(loaded.as_ref());
    let (thread, run_spec, writing) = prepare(&args.run, subject, find, output)?;
    let (mut request, plan) = meant.ok_or_else(no_threads)?;
    (request.script, request.recorded) = run_spec.replay.files();
    let task: Task = Box::new(move |context| Box::pin(fork_thread(context, thread, request, plan, run_spec)));
    show_task(task, writing, &args.run.view, output)
}

async fn fork_thread(
    context: TaskContext,
    thread: ThreadId,
    request: ForkRequest,
    plan: ForkPlan,
    run_spec: RunSpec,
) -> Result<Exit, Failure> {
    let (_, origin) = context.engine.definition(&thread)?;
    if let Some(new) = request.of_its_own(plan.at, origin) {
        return run_thread(context, new, run_spec).await;
    }
    let fork = rondo::run::fork(&context.rondo, &thread, plan.at, &request, &run_spec).await?;
    resume_thread(context, fork, run_spec).await
}

fn step(store: &dyn Read, thread: &ThreadId, row: &Row, word: &str) -> Result<u64, Failure> {
    let unclear = |what: String| Failure::new(Code::ForkUnclear, format!("--at {word}: {what}"));
    if word == "last" {
        return Ok(row.seq);
    }
    if let Ok(seq) = word.parse::<u64>()
        && word.len() < 8
    {
        let is_there = (1..=row.seq).contains(&seq);
        return if is_there { Ok(seq) } else { Err(unclear(format!("the thread has {}", plural(row.seq, "step")))) };
    }
    let (start, mut found) = (word.to_lowercase(), Vec::new());
    store.scan(thread, 1..=row.seq, &mut |stored, _| {
        if stored.digest.to_string().starts_with(&start) {
            found.push(stored.seq);
        }
        found.len() < 2
    })?;
    match found.as_slice() {
        [seq] => Ok(*seq),
        [] => Err(unclear("no step of the thread has this digest, or begins with it".to_owned())),
        _ => Err(unclear("more than one step begins so".to_owned())),
    }
}

pub(super) fn plan_text(thread: &ThreadId, row: &Row, plan: &ForkPlan, is_answered: bool) -> String {
    let shared = match plan.at {
        0 => format!("nothing of thread {thread} would be shared\n"),
        at if at == row.seq => format!("all {} of thread {thread} would be shared\n", plural(at, "step")),
        at => format!("steps 1 to {at} of thread {thread} would be shared\n"),
    };
    let changed = match &plan.changed {
        Some(step) => {
            let (seq, visit, why) = (step.seq, step.visit.visit, &step.why);
            let who = step.visit.lane.role_in_lane(&step.visit.role);
            format!("step {seq} ({who}, visit {visit}) would have been different: {why}\n")
        }
        None if is_answered => format!("step {} would have the given answer\n", plan.at + 1),
        None => "no step so far would have been different\n".to_owned(),
    };
    let again = &plan.again;
    if again.steps == 0 {
        return shared + &changed;
    }
    let tokens = again.usage.map_or_else(String::new, |usage| {
        format!(", {} prompt and {} output tokens", usage.prompt_tokens, usage.output_tokens)
    });
    let cost = cost_text(again.cost).map_or_else(String::new, |cost| format!(", {cost}"));
    let (steps, calls) = (plural(again.steps, "step"), plural(again.model_calls, "model call"));
    format!("{shared}{changed}{steps} would run again; the last time they took {calls}{tokens}{cost}\n")
}
