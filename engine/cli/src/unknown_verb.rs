//! The fault of a word that is no verb, with the verb that was meant.

use clap::error::{ContextKind, ContextValue};
use rondo::protocol::diagnostic::{Code, nearest};

use super::Failure;

/// Verbs of other programs, with the command of rondo that does the same.
const ELSEWHERE: [(&str, &str); 33] = [
    ("check", "validate"),
    ("config", "doctor"),
    ("continue", "resume"),
    ("cost", "usage"),
    ("create", "init"),
    ("dag", "graph"),
    ("delete", "prune"),
    ("describe", "show"),
    ("docs", "explain"),
    ("draw", "graph"),
    ("env", "doctor"),
    ("exec", "run"),
    ("history", "show"),
    ("info", "show"),
    ("inspect", "show"),
    ("invoke", "run"),
    ("kill", "cancel"),
    ("lint", "validate"),
    ("list", "threads"),
    ("log", "show"),
    ("logs", "show"),
    ("ls", "threads"),
    ("new", "init"),
    ("plot", "graph"),
    ("ps", "threads"),
    ("reply", "answer"),
    ("respond", "answer"),
    ("runs", "threads"),
    ("start", "run"),
    ("status", "threads"),
    ("stop", "cancel"),
    ("trace", "show"),
    ("tests", "test"),
];

pub fn failure(error: &clap::Error, command: &clap::Command) -> Failure {
    let word = match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(word)) => word.as_str(),
        _ => "",
    };
    let verbs = || command.get_subcommands().filter(|verb| !verb.is_hide_set()).map(clap::Command::get_name);
    let same = ELSEWHERE.iter().find(|(other, _)| *other == word).map(|(_, verb)| *verb);
    let same = same.filter(|verb| verbs().any(|known| known == *verb));
    let hint = match same.or_else(|| nearest(word, verbs())) {
        Some(verb) => format!("did you mean `rondo {verb}`? `rondo --help` lists the verbs"),
        None => "`rondo --help` lists the verbs".to_owned(),
    };
    Failure::new(Code::UnknownVerb, format!("there is no verb `{word}`")).with_hint(hint)
}
