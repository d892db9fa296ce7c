//! `rondo cancel`: ends a thread for good.

use rondo::core::Cancelled;
use rondo::tell::tell;

use super::exit::Exit;
use super::failure::Failure;
use super::find_thread::find_thread_in;
use super::output::Output;
use super::person::{consent_by, is_attended};
use super::runner::Writing;
use super::runner::{Task, run_task};
use super::store_access::{existing_store_at, trusted_store};
use super::{JsonArgs, StoreArgs};

/// End a thread for good; it cannot be resumed
#[derive(Debug, clap::Args)]
pub struct CancelArgs {
    /// A thread's id, the beginning of one, or `last`
    thread: String,
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    pub(super) json: JsonArgs,
}

pub fn cancel(args: &CancelArgs, output: &mut Output) -> Result<Exit, Failure> {
    let by = consent_by(false, !output.is_json() && is_attended());
    let rondo = super::rondo(&args.store.flags(), by, None)?;
    rondo.operator().files.refuse_unsafe()?;
    let settings = rondo.operator().files.in_force()?;
    let store = trusted_store(&settings, by)?;
    let (_, thread, _) = find_thread_in(existing_store_at(&store.folder)?, &args.thread)?;
    let id = thread.clone();
    let task: Task = Box::new(move |context| {
        Box::pin(async move {
            if let Cancelled::Ended { ending, head } = context.engine.cancel(&id).await? {
                context.ended(id, ending, head).await?;
            }
            Ok(Exit::Done)
        })
    });
    let exit = run_task(task, Writing { rondo, to_open: Some((store, settings.durability.value)) }, output)?;
    if exit == Exit::Done && !output.is_json() {
        tell(&format!("thread {thread} is cancelled\n"));
    }
    Ok(exit)
}
