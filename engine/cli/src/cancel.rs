use rondo::core::Cancelled;
use rondo::run::cancel as cancel_thread;

use super::find_thread::find_thread;
use super::runner::{Task, Writing, run_task};
use super::store_access::existing_store_at;
use super::{Exit, Failure, Output, PlaceArgs, json};

/// End a thread for good; it cannot be resumed
#[derive(Debug, clap::Args)]
#[command(arg = json())]
pub struct CancelArgs {
    /// A thread's id, a prefix of one, or `last`
    thread: String,
    #[command(flatten)]
    place: PlaceArgs,
}

pub fn cancel(args: &CancelArgs, output: &mut Output) -> Result<Exit, Failure> {
    let (rondo, store) = args.place.trusted(output)?;
    let (thread, _) = find_thread(existing_store_at(&store.opening.folder)?.store.as_ref(), &args.thread)?;
    let id = thread.clone();
    let task: Task = Box::new(move |context| {
        Box::pin(async move {
            if let Cancelled::Ended { ending, head } = cancel_thread(&context.rondo, &id).await? {
                context.ended(id, ending, head).await?;
            }
            Ok(Exit::Done)
        })
    });
    let exit = run_task(task, Writing { rondo, to_open: Some(store) }, output)?;
    if exit == Exit::Done {
        output.tell(&format!("thread {thread} is cancelled\n"));
    }
    Ok(exit)
}
