//! A batch: a thread for each line of a file with inputs.
//!
//! Laws. All lines are stored before the first of them runs, each with the id of its thread: a batch that was stopped
//! or killed continues without its file, and no line runs twice. Results are read from the store when their turn comes
//! and are not kept. Consent is asked for before the first line, and nobody is asked anything after that.

mod display;
mod ends;
mod lines;

use std::sync::Arc;

use self::display::Display;
pub use self::lines::numbers;
use self::lines::{Common, tasks};
use super::input;
use super::report;
use super::result::View;
use super::resume::{ContinueArgs, continuing};
use super::runner::{Session, Writing, show, with_session};
use super::stored_batch::{Batch, Line, Options, VERSION, encode, find_batch};
use rondo::core::{Engine, Env as _, NewThread, RunConfig, SystemEnv};
use rondo::host::continuing::ResumeSource;
use rondo::host::run_config::RunSpec;
use rondo::protocol::diagnostic::{Code, Diagnostic};
use rondo::protocol::id::{BatchId, ThreadId};
use rondo::protocol::workflow::Workflow;
use rondo::run::configured;
use rondo::store::Read;
use rondo::tell::{plural, tell, tell_styled};

use crate::{Exit, Failure, Output, Style};

const MAX_LINES: usize = 100_000;

const CHUNK_BYTES: usize = 1 << 20;

const MAX_SHOWN: usize = 20;

#[derive(Debug, Clone, Copy, clap::Args)]
pub struct BatchArgs {
    /// How many threads of a batch run at once
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=256))]
    concurrency: u16,
    /// Write the results of a batch as its lines end, not in the order of the inputs
    #[arg(long)]
    unordered: bool,
    /// Stop a batch at its first line that does not end in `done`; an invalid line then starts nothing
    #[arg(long)]
    fail_fast: bool,
    /// Run every line of a batch, whatever happens to others [default]
    #[arg(long, conflicts_with = "fail_fast")]
    keep_going: bool,
}

/// Stores a batch and runs it. `new` is what its threads have in common.
pub fn start(
    lines: input::Lines,
    new: NewThread,
    run_spec: RunSpec,
    args: BatchArgs,
    writing: Writing,
    (view, output): (&View, &mut Output),
) -> Result<Exit, Failure> {
    not_raw(view)?;
    let BatchArgs { concurrency, unordered: is_unordered, fail_fast: fails_fast, .. } = args;
    let options = Options { concurrency, is_unordered, fails_fast };
    if fails_fast {
        refuse(&lines, &new.workflow)?;
    }
    let is_json = output.is_json();
    with_session(writing, async |session| {
        let run_config = configured(&session.rondo, &new.workflow, &run_spec).await?;
        let (id, batch) = keep((&lines, is_json), new, &run_config, options, session.host.engine()).await?;
        drop(lines);
        go(session, id, batch, run_spec, (view, output)).await
    })
}

pub fn resume(args: &ContinueArgs, word: &str, output: &mut Output) -> Result<Exit, Failure> {
    not_raw(&args.view)?;
    let find = |store: &dyn Read| {
        let (id, batch) = find_batch(store, word)?;
        let Batch { workflow, policy, file, script, recorded, workspace, .. } = batch.clone();
        let source = ResumeSource { workflow, policy, file, script, recorded, workspace, imported: None };
        Ok(((id, batch), Some(source)))
    };
    let ((id, batch), run_spec, writing) = continuing(args, find, output)?;
    let run_spec = RunSpec { approvers: None, ..run_spec };
    with_session(writing, async |session| go(session, id, batch, run_spec, (&args.view, output)).await)
}

fn not_raw(view: &View) -> Result<(), Failure> {
    if view.raw.is_none() {
        return Ok(());
    }
    let failure = Failure::new(Code::InputSyntax, "--raw writes one text, and a batch has a result for each line");
    Err(failure.with_hint("leave it out, and take `.result.KEY` of each line"))
}

fn refuse(lines: &input::Lines, workflow: &Workflow) -> Result<(), Failure> {
    let mut faults = Faults::default();
    lines.inputs(workflow)?.filter_map(|(_, input)| input.err()).for_each(|found| faults.add(found));
    if faults.lines == 0 { Ok(()) } else { Err(lines.faulty(faults.shown).into()) }
}

#[derive(Default)]
struct Faults {
    shown: Vec<Diagnostic>,
    lines: usize,
}

impl Faults {
    fn add(&mut self, found: Vec<Diagnostic>) {
        if self.lines < MAX_SHOWN {
            self.shown.extend(found);
        }
        self.lines += 1;
    }

    fn tell(self, lines: &input::Lines) {
        if self.lines > 0 {
            tell_styled(&report::diagnostics(&lines.faulty(self.shown), Style::stderr()));
        }
        if let Some(more) = self.lines.checked_sub(MAX_SHOWN).filter(|more| *more > 0) {
            tell(&format!("and {} with faults\n", plural(more as u64, "more line")));
        }
    }
}

async fn keep(
    (lines, is_json): (&input::Lines, bool),
    new: NewThread,
    run_config: &RunConfig,
    options: Options,
    engine: &Engine,
) -> Result<(BatchId, Batch), Failure> {
    let NewThread { workflow, policy, file, script, recorded, workspace, labels, .. } = new;
    let env = SystemEnv::default();
    let begun_ms = env.now_ms();
    let id = BatchId::from_parts(begun_ms, env.random());
    // Ids that follow each other, so that threads are listed in the order of their lines.
    let mut random = env.random() & (u128::MAX >> 64);
    let (mut chunk, mut bytes, mut count) = (Vec::new(), 0, 0);
    let mut faulty = Faults::default();
    for (number, input) in lines.inputs(&workflow)? {
        if count == MAX_LINES {
            let failure = Failure::new(Code::FileRefused, format!("the file has more than {MAX_LINES} inputs"));
            return Err(failure.with_hint("split it: each part is a batch of its own"));
        }
        count += 1;
        let line = match input {
            Ok(input) => {
                let input = engine.redacted((&workflow, &policy), run_config, input)?;
                random += 1;
                Line::Valid { thread: ThreadId::from_parts(begun_ms, random), input }
            }
            Err(found) => {
                let line = invalid(&found);
                faulty.add(found);
                line
            }
        };
        let line = encode(&line)?;
        bytes += line.len();
        chunk.push((number, line));
        if bytes > CHUNK_BYTES {
            engine.store().put_batch(&id, std::mem::take(&mut chunk), None).await?;
            bytes = 0;
        }
    }
    if !is_json {
        faulty.tell(lines);
    }
    let batch = Batch {
        version: VERSION,
        workflow,
        policy,
        file,
        script,
        recorded,
        workspace,
        tags: labels.tags,
        lines: u32::try_from(count).unwrap_or(u32::MAX),
        options,
        started_at_ms: begun_ms,
    };
    engine.store().put_batch(&id, chunk, Some(encode(&batch)?)).await?;
    Ok((id, batch))
}

fn invalid(faults: &[Diagnostic]) -> Line {
    let code = faults.first().map_or(Code::InvalidInput, |fault| fault.code);
    let words: Vec<&str> = faults.iter().map(|fault| fault.message.as_str()).collect();
    Line::Invalid { code: code.to_string(), message: words.join("; ") }
}

/// Runs what has not ended, and shows every line.
async fn go(
    session: Session,
    id: BatchId,
    batch: Batch,
    run_spec: RunSpec,
    (view, output): (&View, &mut Output),
) -> Result<Exit, Failure> {
    let (signals, store) = (session.signals.clone(), Arc::clone(session.host.engine().store()));
    // Cancelled by a signal, and with `--fail-fast` by the first line that does not end in `done`.
    let stop = signals.stop.child_token();
    let concurrency = usize::from(batch.options.concurrency);
    let is_replay = run_spec.replay.is_any();
    let mut display = Display::new(&id, &batch, (Arc::clone(&store), is_replay), (view, output))?;
    display.started()?;
    let tasks = tasks(numbers(store, id), Arc::new(Common { batch, run_spec }));
    show(session, tasks, concurrency, stop, display::TICK, &mut display).await?;
    let exit = display.finish();
    Ok(signals.exit().unwrap_or(exit))
}
