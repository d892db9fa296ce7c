//! The work on each line of a batch.

use std::sync::Arc;

use rondo::core::{Labels, NewThread};
use rondo::host::run_config::RunSpec;
use rondo::protocol::Value;
use rondo::protocol::diagnostic::Code;
use rondo::protocol::id::{BatchId, ThreadId};
use rondo::run::{begin as begin_run, configured};
use rondo::store::StepStore;

use super::super::resume::resume_thread;
use super::super::runner::{Task, TaskContext};
use super::super::stored_batch::{Batch, Line};
use super::super::thread_row;

use crate::{Exit, Failure};

const PAGE: usize = 64;

pub(super) struct Common {
    pub(super) batch: Batch,
    pub(super) run_spec: RunSpec,
}

/// The numbers of a batch's lines with their contents, read when they are needed.
pub type Numbers = Box<dyn Iterator<Item = Result<(u32, Line), Failure>> + Send>;

pub fn numbers(store: Arc<dyn StepStore>, batch: BatchId) -> Numbers {
    Box::new(Line::all(store, batch, 1, PAGE))
}

pub(super) fn tasks(numbers: Numbers, common: Arc<Common>) -> impl Iterator<Item = (u32, Task)> + Send + 'static {
    numbers.map(move |line| {
        let common = Arc::clone(&common);
        let (number, line) = match line {
            Ok((number, line)) => (number, Ok(line)),
            // The batch itself cannot be read.
            Err(failure) => (0, Err(failure)),
        };
        let task: Task = Box::new(move |context| Box::pin(async move { run(context, line?, common).await }));
        (number, task)
    })
}

async fn run(context: TaskContext, line: Line, common: Arc<Common>) -> Result<Exit, Failure> {
    let (thread, input) = match line {
        Line::Valid { thread, input } => (thread, input),
        Line::Invalid { message, .. } => return Err(Failure::new(Code::InvalidInput, message)),
    };
    match context.engine.store().row(&thread)? {
        Some(row) if thread_row::origin(&row).is_some_and(|origin| origin.imported.is_some()) => {
            let what = format!("thread {thread} was imported, and this line did not begin it");
            Err(Failure::new(Code::NotTrusted, what)
                .with_hint(format!("`rondo rm {thread}` deletes it, and the line starts again")))
        }
        Some(_) => resume_thread(context, thread, common.run_spec.clone()).await,
        None => begin(context, thread, input, common).await,
    }
}

async fn begin(context: TaskContext, thread: ThreadId, input: Value, common: Arc<Common>) -> Result<Exit, Failure> {
    let Batch { workflow, policy, file, script, recorded, workspace, tags, .. } = common.batch.clone();
    let run_config = context.unless_stopped(configured(&context.rondo, &workflow, &common.run_spec)).await?;
    let labels = Labels { label: None, tags };
    let new = NewThread { workflow, policy, input, file, script, recorded, workspace, labels };
    let mut run = begin_run(&context.rondo, new, common.run_spec.clone(), run_config, Some(thread)).await?;
    Ok(Exit::of_ended(&context.follow(&mut run).await))
}
