use std::path::{Path, PathBuf};

use rondo::store::repair::{Loss, LossKind, Repaired};
use rondo::tell::{plural, tell};
use rondo::upkeep::{self, Repair};

use super::upkeep_bar::with_bar;
use super::{EventOf, Exit, Failure, Output, StoreArgs, json, json_line};

/// Recover what is intact of a damaged store into a new one, and report what was lost
#[derive(Debug, clap::Args)]
#[command(
    arg = json(),
    after_help = "Every whole thread is kept. Of a damaged one the steps before the damage are kept, and it can be \
                        resumed from there."
)]
pub struct RepairArgs {
    /// The folder of the repaired store; it must be new or empty [default: beside the store, ending in .repaired]
    #[arg(value_name = "DIR")]
    to: Option<PathBuf>,
    #[command(flatten)]
    store: StoreArgs,
}

pub fn repair(args: &RepairArgs, output: &mut Output) -> Result<Exit, Failure> {
    let folder = args.store.folder()?;
    let to = args.to.clone().unwrap_or_else(|| upkeep::beside(&folder));
    let mut told = Ok(());
    let repaired = with_bar(|bar| {
        upkeep::repair(&folder, &to, &mut |at| bar.show(at), &mut |loss| {
            if told.is_ok() {
                told = bar.above(|| output.show(&EventOf { event: "loss", of: &loss }, || loss_text(&loss)));
            }
        })
    })?;
    told?;
    let to = to.display().to_string();
    let (before, kept) = repaired.map(|Repair { before, kept }| (before, kept)).unzip();
    for notice in before.iter().flat_map(|before| &before.notices) {
        tell(&format!("store: {notice}\n"));
    }
    let Repaired { whole, shortened, lost, lost_steps } = kept.unwrap_or_default();
    let line = json_line!(
        "repair",
        // None is made of a whole one.
        folder: kept.map(|_| &to),
        faults: before.map_or(0, |before| before.faults.len()),
        whole_threads: whole,
        shortened_threads: shortened,
        lost_threads: lost,
        lost_steps,
    );
    output.show(&line, || match kept {
        Some(kept) => sum(&folder, &to, kept),
        None => format!("{} is whole; there is nothing to repair\n", folder.display()),
    })?;
    Ok(Exit::Done)
}

fn loss_text(loss: &Loss) -> String {
    let Loss { kind, thread, seq, through, role, visit, lane, what, .. } = loss;
    let of = thread.as_ref().map_or_else(String::new, |thread| format!(" of thread {thread}"));
    let step = match (seq, through) {
        (Some(first), Some(last)) if first < last => format!("steps {first} to {last}{of}"),
        (Some(seq), _) => format!("step {seq}{of}"),
        (None, _) => String::new(),
    };
    let who = role.as_ref().zip(visit.as_ref()).map_or_else(String::new, |(role, visit)| {
        let role = lane.as_ref().map_or_else(|| role.to_string(), |lane| lane.role_in_lane(role));
        format!(", visit {visit} of {role}")
    });
    let what_is_lost = match kind {
        LossKind::Step => format!("{step}{who}"),
        LossKind::Note => format!("the note of {step}{who}"),
        LossKind::Thread => thread.as_ref().map_or_else(String::new, |thread| format!("thread {thread}")),
        LossKind::Journal => format!("the journal{of}"),
        LossKind::Row => format!("the row{of}"),
        LossKind::Parent => format!("the parent{of}"),
        LossKind::Batch => "a batch".to_owned(),
        LossKind::Hooks => "entries of hooks".to_owned(),
    };
    format!("lost: {what_is_lost}: {what}\n")
}

fn sum(folder: &Path, to: &str, kept: Repaired) -> String {
    let Repaired { whole, shortened, lost, lost_steps } = kept;
    let folder = folder.display();
    format!(
        "{to} is a whole store: {} as before, {shortened} without {} last steps, {lost} lost; {} lost in all\n  \
         `--store {to}` uses it; to put it in place: mv {folder} {folder}.damaged && mv {to} {folder}\n",
        plural(whole, "thread"),
        if shortened == 1 { "its" } else { "their" },
        plural(lost_steps, "step"),
    )
}
