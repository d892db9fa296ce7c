//! The fault of a word that is no verb, with the verb that was meant.

use clap::error::{ContextKind, ContextValue};
use rondo::protocol::diagnostic::{Code, nearest};

use super::Failure;

/// Commands of rondo, with the verbs of other programs that do the same.
const ELSEWHERE: [(&str, &[&str]); 14] = [
    ("answer", &["reply", "respond"]),
    ("cancel", &["kill", "stop"]),
    ("doctor", &["config", "env"]),
    ("explain", &["docs"]),
    ("graph", &["dag", "draw", "plot"]),
    ("init", &["create", "new"]),
    ("prune", &["delete"]),
    ("resume", &["continue"]),
    ("run", &["exec", "invoke", "start"]),
    ("show", &["describe", "history", "info", "inspect", "log", "logs", "trace"]),
    ("test", &["tests"]),
    ("threads", &["list", "ls", "ps", "runs", "status"]),
    ("usage", &["cost"]),
    ("validate", &["check", "lint"]),
];

pub fn failure(error: &clap::Error, command: &clap::Command) -> Failure {
    let word = match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(word)) => word.as_str(),
        _ => "",
    };
    let verbs = || command.get_subcommands().filter(|verb| !verb.is_hide_set()).map(clap::Command::get_name);
    let same = ELSEWHERE.iter().find(|(_, others)| others.contains(&word)).map(|(verb, _)| *verb);
    let same = same.filter(|verb| verbs().any(|known| known == *verb));
    let meant = same.or_else(|| nearest(word, verbs()));
    let meant = meant.map_or_else(String::new, |verb| format!("did you mean `rondo {verb}`? "));
    let failure = Failure::new(Code::UnknownVerb, format!("there is no verb `{word}`"));
    failure.with_hint(format!("{meant}`rondo --help` lists the verbs"))
}
