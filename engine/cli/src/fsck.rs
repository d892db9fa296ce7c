use std::path::Path;

use rondo::protocol::id::ThreadId;
use rondo::store::check::{Examination, Fault};
use rondo::tell::{plural, size, tell};
use rondo::upkeep::{self, SavedExamination};

use super::named_command::completed;
use super::threads::age;
use super::upkeep_bar::with_bar;
use super::{Exit, Failure, Output, StoreArgs, json, settings_files, some};

/// How many threads a fault names in text; `--json` names all.
const MAX_NAMED: usize = 5;

/// Examine a store: read everything in it and name what is damaged
#[derive(Debug, clap::Args)]
#[command(arg = json())]
pub struct FsckArgs {
    /// Examine everything again, including what an interrupted examination found intact
    #[arg(long)]
    restart: bool,
    #[command(flatten)]
    store: StoreArgs,
}

pub fn fsck(args: &FsckArgs, output: &mut Output) -> Result<Exit, Failure> {
    let settings = settings_files::settings(&args.store.flags())?;
    let folder = settings.store.value;
    let saved = settings.state_folder.map(|state| SavedExamination::of(&folder, &state));
    match &saved {
        Some(saved) if args.restart => saved.remove(),
        Some(saved) if let Some(interrupted) = saved.age() => {
            let ago = age(interrupted.as_secs().saturating_mul(1000));
            tell(&format!(
                "continues from where an examination was interrupted {ago} ago, if nothing was written since; --restart \
                 examines everything\n"
            ));
        }
        _ => {}
    }
    let examination = with_bar(|bar| upkeep::fsck(&folder, saved.as_ref(), &mut |at| bar.show(at)))?;
    for notice in &examination.notices {
        tell(&format!("store: {notice}\n"));
    }
    for fault in &examination.faults {
        output.show(fault, || fault_text(fault, examination.whole_threads == examination.threads))?;
    }
    output.aside(&sum(&folder, &examination))?;
    Ok(if examination.faults.is_empty() { Exit::Done } else { Exit::Damaged })
}

fn fault_text(fault: &Fault, are_all_whole: bool) -> String {
    let threads = match fault.threads.len() {
        0 if are_all_whole => "all threads are whole".to_owned(),
        0 => "it is not known to touch a thread".to_owned(),
        _ => format!("it touches {}", some(fault.threads.iter().map(ThreadId::as_str), MAX_NAMED)),
    };
    let object = fault.object.map(|object| object.to_string()).filter(|object| !fault.what.contains(object));
    let object = object.map_or_else(String::new, |object| format!(" ({object})"));
    format!("{}: {}{object}\n  {threads}\n", fault.code, fault.what)
}

/// What is proven, and what to do about the rest.
fn sum(folder: &Path, examination: &Examination) -> String {
    let Examination { faults, threads, whole_threads, steps, objects, bytes, .. } = examination;
    let read = format!("{} and {} proven, {} read", plural(*steps, "step"), plural(*objects, "object"), size(*bytes));
    let (shown, threads) = (folder.display(), plural(*threads, "thread"));
    if faults.is_empty() {
        return format!("{shown} is whole: {threads}, {read}\n");
    }
    let faults = plural(faults.len() as u64, "fault");
    let repair = completed("`rondo repair` makes a whole store from the rest");
    format!("{shown} is damaged: {faults}; {whole_threads} of {threads} whole, {read}\n  {repair}\n")
}
