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
    /// The folder after `--store`, as it is typed, for the verbs that take it.
    store: Option<String>,
    /// ` -o FILE`, for the verbs that continue a run.
    output: String,
}

pub fn keep(matches: &ArgMatches) {
    let Some((verb, matches)) = matches.subcommand() else { return };
    let path = |name: &str| {
        let given = matches.try_get_one::<PathBuf>(name).ok().flatten();
        given.map(|path| shell_argument(&path.to_string_lossy()).into_owned())
    };
    let output = path("output").filter(|_| WITH_RESULT.contains(&verb)).map(|path| format!(" -o {path}"));
    let _ = GIVEN.set(Given { store: path("store"), output: output.unwrap_or_default() });
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
        if self.store.is_none() && self.output.is_empty() {
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
        let store = match &self.store {
            Some(folder) if words.ends_with(" --store") => format!(" {folder}"),
            Some(folder) if !words.contains("--store") && super::takes_store(verb) => format!(" --store {folder}"),
            _ => String::new(),
        };
        let continues = CONTINUING.contains(&verb) && !words.contains(" -o ");
        store + if continues { self.output.as_str() } else { "" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_is_named_means_the_same_store_and_file() {
        let given = Given { store: Some("'my store'".to_owned()), output: " -o out.json".to_owned() };
        for (text, wanted) in [
            ("`rondo resume x` continues", "`rondo resume x --store 'my store' -o out.json` continues"),
            ("see `rondo show x`", "see `rondo show x --store 'my store'`"),
            ("`rondo explain lanes`, `max` and rondo show", "`rondo explain lanes`, `max` and rondo show"),
            ("`rondo trust --store` makes it yours", "`rondo trust --store 'my store'` makes it yours"),
            ("`rondo trust k.yaml` and `--trust`", "`rondo trust k.yaml` and `--trust`"),
            ("`rondo fsck`, `rondo rm x --store b`", "`rondo fsck --store 'my store'`, `rondo rm x --store b`"),
        ] {
            assert_eq!(given.completed(text), wanted);
        }
        assert_eq!(Given::default().completed("`rondo resume x`"), "`rondo resume x`");
    }
}
