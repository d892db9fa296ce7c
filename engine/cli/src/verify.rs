use rondo::core::conversation::rebuild::{self, Request};
use rondo::protocol::id::ThreadId;
use rondo::views::lines::who;

use super::find_thread::find_thread_in;
use super::{Exit, Failure, Output, PlaceArgs, json, json_line};

/// Rebuild every request of a thread from its steps and compare digests
#[derive(Debug, clap::Args)]
#[command(arg = json())]
pub struct VerifyArgs {
    /// A thread's id, a prefix of one, or `last`
    #[arg(default_value = "last")]
    thread: String,
    #[command(flatten)]
    store: PlaceArgs,
}

pub fn verify(args: &VerifyArgs, output: &mut Output) -> Result<Exit, Failure> {
    let (view, thread, row) = find_thread_in(args.store.copied()?.existing()?, &args.thread)?;
    let (mut requests, mut faults) = (0_u64, 0_u64);
    let mut outcome = Ok(());
    rebuild::requests(view.store.as_ref(), &thread, &row, &|_| true, &mut |request| {
        requests += 1;
        if !request.is_proven() {
            faults += 1;
            outcome = tell(&thread, request, output);
        }
        outcome.is_ok()
    })?;
    outcome?;
    output.show(&json_line!("verified", thread: &thread, head: row.head, requests, faults), || {
        let head = row.head.map_or_else(|| "none yet".to_owned(), |head| head.to_string());
        format!("{thread}: {requests} requests rebuilt, {faults} differ; head {head}\n")
    })?;
    Ok(if faults == 0 { Exit::Done } else { Exit::Damaged })
}

fn tell(thread: &ThreadId, request: Request, output: &mut Output) -> Result<(), Failure> {
    let what = request.fault.unwrap_or_else(|| "the rebuilt request is not the one that was recorded".to_owned());
    let Request { seq, role, lane, visit, recorded, rebuilt, .. } = request;
    let who = who(&role, &lane);
    let text = format!("step {seq}, {who}, visit {visit}: {what}\n  recorded {recorded}\n  rebuilt  {rebuilt}\n");
    output.show(&json_line!("fault", thread, seq, role, lane, visit, recorded, rebuilt, what), || text)
}
