//! Commands that are named in what people are told, completed so that they can be pasted: they mean the same store, and
//! what continues a run writes its result to the same file.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::OnceLock;

use clap::ArgMatches;
use rondo::protocol::hint::Hint;
use rondo::protocol::text::shell_argument;
use rondo::tell;

/// What the command line of this process gave for commands that are named.
static GIVEN: OnceLock<Given> = OnceLock::new();

/// The verbs that write the result of a run, and of these those that continue one.
const WITH_RESULT: [&str; 5] = ["run", "record", "resume", "answer", "fork"];
const CONTINUING: [&str; 2] = ["resume", "answer"];

#[derive(Debug, Default)]
struct Given {
    /// ` --store DIR`, for the verbs that take it.
    store: String,
    /// ` -o FILE`, for the verbs that continue a run.
    output: String,
}

pub fn keep(matches: &ArgMatches) {
    let Some((verb, matches)) = matches.subcommand() else { return };
    let path = |name: &str| {
        let given = matches.try_get_one::<PathBuf>(name).ok().flatten();
        given.map(|path| shell_argument(&path.to_string_lossy()).into_owned())
    };
    let store = path("store").map(|path| format!(" --store {path}"));
    let output = path("output").filter(|_| WITH_RESULT.contains(&verb)).map(|path| format!(" -o {path}"));
    let _ = GIVEN.set(Given { store: store.unwrap_or_default(), output: output.unwrap_or_default() });
}

/// What to do about a fault, with commands that are complete.
pub fn hinted(hint: &Hint) -> String {
    completed(&tell::hint(hint)).into_owned()
}

/// A text whose commands between backticks are complete.
pub fn completed(text: &str) -> Cow<'_, str> {
    GIVEN.get().map_or(Cow::Borrowed(text), |given| given.completed(text))
}

impl Given {
    fn completed<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if self.store.is_empty() && self.output.is_empty() {
            return Cow::Borrowed(text);
        }
        let parts = text.split('`').enumerate().map(|(place, part)| match part.strip_prefix("rondo ") {
            // Every second part stands between backticks.
            Some(words) if place % 2 == 1 => format!("{part}{}", self.lacking(words)),
            _ => part.to_owned(),
        });
        Cow::Owned(parts.collect::<Vec<_>>().join("`"))
    }

    fn lacking(&self, words: &str) -> String {
        let verb = words.split(' ').next().unwrap_or_default();
        let takes_store = !words.contains("--store") && super::takes_store(verb);
        let continues = CONTINUING.contains(&verb) && !words.contains(" -o ");
        let part = |part, is_lacking| if is_lacking { part } else { "" };
        format!("{}{}", part(&self.store, takes_store), part(&self.output, continues))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_is_named_means_the_same_store_and_file() {
        let given = Given { store: " --store 'my store'".to_owned(), output: " -o out.json".to_owned() };
        for (text, wanted) in [
            ("`rondo resume x` continues", "`rondo resume x --store 'my store' -o out.json` continues"),
            ("see `rondo show x`", "see `rondo show x --store 'my store'`"),
            ("`rondo explain lanes`, `max` and rondo show", "`rondo explain lanes`, `max` and rondo show"),
            ("`rondo trust --store` makes it yours", "`rondo trust --store` makes it yours"),
        ] {
            assert_eq!(given.completed(text), wanted);
        }
        assert_eq!(Given::default().completed("`rondo resume x`"), "`rondo resume x`");
    }
}
