use rondo::protocol::diagnostic::Code;

use super::deletion::{Deletion, DeletionArgs};
use super::find_thread::find_thread;
use super::{Exit, Failure, Output};

const MAX_NAMED: usize = 5;

/// Delete threads with their steps and children
#[derive(Debug, clap::Args)]
pub struct RmArgs {
    /// Threads: ids, prefixes of ids, names, or `last`
    #[arg(required = true, value_name = "THREAD")]
    threads: Vec<String>,
    /// Also delete the threads that were forked from them
    #[arg(long)]
    with_forks: bool,
    #[command(flatten)]
    pub(super) deletion: DeletionArgs,
}

pub fn rm(args: &RmArgs, output: &mut Output) -> Result<Exit, Failure> {
    let view = args.deletion.store.existing()?;
    let mut deletion = Deletion::of(view, |_, _, _| false)?;
    for word in &args.threads {
        let (thread, _) = find_thread(deletion.view.store.as_ref(), word)?;
        deletion.threads.insert(thread);
    }
    let chosen = deletion.threads.clone();
    deletion.threads = deletion.with_what_needs(deletion.threads.clone(), args.with_forks);
    for thread in &chosen {
        if let Some(parent) = deletion.parent(thread).filter(|parent| !deletion.threads.contains(*parent)) {
            let message = format!("thread {thread} is a child of thread {parent}, which needs it");
            let failure = Failure::new(Code::ThreadNeeded, message);
            return Err(failure.with_hint(format!("`rondo rm {parent}` deletes both")));
        }
    }
    let forks = deletion.forks();
    if let Some((_, base)) = forks.first() {
        let named: Vec<&str> = forks.iter().take(MAX_NAMED).map(|(fork, _)| fork.as_str()).collect();
        let more = if forks.len() > MAX_NAMED { ", and others" } else { "" };
        let message = format!("thread {base} has steps that its forks need: {}{more}", named.join(", "));
        return Err(Failure::new(Code::ThreadNeeded, message).with_hint("--with-forks deletes them too"));
    }
    let deleted = deletion.carry_out(&args.deletion, output)?;
    deleted.map_or(Ok(Exit::Done), |deleted| deleted.give_back(output))
}
