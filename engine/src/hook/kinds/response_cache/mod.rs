//! `response_cache`: answers a model call, or a whole turn, from an equal one that was answered before, in any thread
//! that its scope covers. Transparent.
//!
//! Both legs stand here: what is looked up ([`key`]), what is kept ([`entry`]), and when ([`answers`]). The runtime
//! knows nothing of it. Laws:
//!
//! - Two requests that differ in anything that is sent, in where they are sent, or in how often the thread has asked
//!   them before have two keys.
//! - What was refused, cut, withheld, empty or failed is never kept; only a first attempt is answered.
//! - A turn is kept only if each of its tool calls merely looked, and is given again only while everything that they
//!   saw still stands.
//! - An answer given again costs nothing and says what it had cost.
//! - A shelf that is full, slow, damaged or gone makes calls miss; it never fails or delays them by more than 250 ms.

mod answers;
mod entry;
mod explain;
mod key;
mod settings;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use rondo_protocol::workflow::HookUse;

use self::answers::Answers;
use self::entry::Answer;
use self::settings::Settings;
use crate::hook::rack::{self, Rack};
use crate::hook::{Action, Argument, Flag, Hook, HookKind, Making, RoleView, Said, Verb};

/// The name in files.
pub(super) const NAME: &str = "response_cache";

/// The flag that both kinds share that keep answers.
const FLAG: Flag = Flag {
    name: "cache",
    values: &["on", "off", "read", "refresh"],
    about: "Whether earlier answers are given again (on, read) and new ones kept (on, refresh)",
};

/// The kind. It holds what is kept in memory, so that all runs of a process share it.
#[derive(Debug, Default)]
pub struct ResponseCache {
    rack: Arc<Rack<Answer>>,
}

impl HookKind for ResponseCache {
    fn name(&self) -> &'static str {
        NAME
    }

    /// A role whose `with` names the kind has a node of its own.
    fn auto_inject(&self, role: &RoleView) -> Option<HookUse> {
        settings::of_role(role)
    }

    fn flags(&self) -> Vec<Flag> {
        vec![FLAG]
    }

    fn verbs(&self) -> Vec<Verb> {
        const STATS: &[Argument] = &[];
        const CLEAR: &[Argument] = &[
            Argument::flag("kind", "KIND", "Only what this kind keeps: response_cache or tool_cache"),
            Argument::flag("workflow", "NAME", "Only of this workflow"),
            Argument::flag("role", "ROLE", "Only of this role"),
            Argument::flag("tool", "TOOL", "Only of this tool"),
            Argument::flag("older-than", "AGE", "Only what was kept longer ago than this, such as 2h"),
        ];
        const STEP: &[Argument] = &[Argument::place("step", "STEP", "A step: THREAD:SEQ, last:SEQ, or its digest")];
        const THREAD: &[Argument] =
            &[Argument::place("thread", "THREAD", "A thread's id, the beginning of one, or `last`")];
        let stats = |_, desk: &dyn crate::hook::Desk| rack::stats(NAME, desk);
        let (clearing, warming) = (Arc::clone(&self.rack), Arc::clone(&self.rack));
        vec![Verb {
            name: "cache",
            about: "Show, explain, fill and clear what hooks keep of earlier answers",
            actions: vec![
                Action::looks("stats", "What was looked up, found, kept and saved", STATS, stats),
                Action::looks(
                    "explain",
                    "Why calls of a step were or were not answered: each key, part by part",
                    STEP,
                    explain::explain,
                ),
                Action::changes("clear", "Forget what is kept", CLEAR, move |asked, desk| {
                    let rack = Arc::clone(&clearing);
                    Box::pin(async move { rack::clear(&rack, NAME, &asked, desk).await })
                }),
                Action::changes(
                    "warm",
                    "Learn the answers of a thread anew from its committed steps",
                    THREAD,
                    move |asked, desk| {
                        let rack = Arc::clone(&warming);
                        Box::pin(async move { warm(&rack, &asked, desk).await })
                    },
                ),
            ],
        }]
    }

    fn build(&self, making: &Making<'_>) -> Result<Arc<dyn Hook>, String> {
        let settings = Settings::read(making)?;
        Ok(Arc::new(Answers::new(&self.rack, settings, making)))
    }
}

/// Sends a thread's calls along the nodes of this kind once more, so that they keep what was answered.
async fn warm(
    rack: &Rack<Answer>,
    asked: &crate::hook::verb::Asked,
    desk: &dyn crate::hook::Desk,
) -> Result<Said, String> {
    let count = async || -> Result<u64, String> {
        let mut entries = 0;
        for (_, shelf) in rack.all(desk.space())? {
            shelf.ready().await;
            entries += shelf.totals().entries;
        }
        Ok(entries)
    };
    let thread = desk.thread(asked.get("thread").map(String::as_str).unwrap_or_default())?;
    let before = count().await?;
    let calls = desk.rehearse(&thread).await?;
    let kept = count().await?.saturating_sub(before);
    let line = rondo_protocol::Value::from_iter([
        ("kind", rondo_protocol::Value::from(NAME)),
        ("calls", rondo_protocol::Value::from(calls)),
        ("kept", rondo_protocol::Value::from(kept)),
    ]);
    let text = match calls {
        0 => format!("{NAME}: no call of thread {thread} passes it\n"),
        calls => format!("{NAME}: {calls} calls looked at, {kept} new entries\n"),
    };
    Ok(Said { text, lines: vec![line] })
}
