//! The verbs that hook kinds bring along: the registry says which there are, this file puts them beside the others.

use std::sync::Arc;

use clap::{Arg, ArgMatches, Command};
use rondo_protocol::diagnostic::Code;

use super::exit::Exit;
use super::failure::Failure;
use super::output::Output;
use super::session::{of_store, settings};
use crate::config::Flags;
use crate::hook::registry::Verb;
use crate::hook::{Registry, Space};
use crate::store::{Options, RocksStore};

/// The name of the words that follow a verb.
const WORDS: &str = "words";

/// The command line with the verbs of the registry's kinds.
pub fn mount(command: Command, registry: &Registry) -> Command {
    registry.kinds().flat_map(|kind| kind.verbs()).fold(command, |command, verb| {
        let words = Arg::new(WORDS).num_args(0..).trailing_var_arg(true).allow_hyphen_values(true);
        command.subcommand(Command::new(verb.name).about(verb.about).arg(words))
    })
}

/// The verb of a kind that was asked for, with its words and the name of its kind; `None` when it is another verb.
pub fn asked<'r>(matches: &ArgMatches, registry: &'r Registry) -> Option<(&'r str, Verb, Vec<String>)> {
    let (name, given) = matches.subcommand()?;
    registry.kinds().find_map(|kind| {
        let verb = kind.verbs().into_iter().find(|verb| verb.name == name)?;
        let words = given.get_many::<String>(WORDS).unwrap_or_default().cloned().collect();
        Some((kind.name(), verb, words))
    })
}

/// Runs the verb of a kind on the kind's own keys and values.
///
/// # Errors
/// When the store cannot be opened, or the verb fails.
pub fn run(kind: &str, verb: &Verb, words: &[String], output: &mut Output) -> Result<Exit, Failure> {
    let settings = settings(&Flags { store: None, durability: None })?;
    let options = Options { durability: settings.durability.value };
    let (store, _) = RocksStore::open(&settings.store.value, options).map_err(|error| of_store(&error))?;
    let space = Space::new(Arc::new(store), kind);
    let text = (verb.run)(words, &space).map_err(|error| Failure::new(Code::HookFailed, error))?;
    output.text(&text)?;
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rondo_protocol::Value;
    use rondo_protocol::id::RoleName;

    use super::*;
    use crate::hook::{Hook, HookKind, RoleView};

    struct Counting;

    impl HookKind for Counting {
        fn name(&self) -> &'static str {
            "counting"
        }

        fn settings_schema(&self) -> Value {
            Value::empty_object()
        }

        fn verbs(&self) -> Vec<Verb> {
            let run = |words: &[String], _: &Space| Ok(format!("{} words\n", words.len()));
            vec![Verb { name: "count", about: "Count what was counted", run }]
        }

        fn build(
            &self,
            _: &BTreeMap<String, Value>,
            _: &BTreeMap<RoleName, RoleView>,
        ) -> Result<Arc<dyn Hook>, String> {
            Err("not built here".to_owned())
        }
    }

    #[test]
    fn the_verbs_of_a_registry_stand_beside_the_others() {
        let registry = Registry::new([Arc::new(Counting) as Arc<dyn HookKind>]);
        let command = || mount(<crate::cli::CommandLine as clap::CommandFactory>::command(), &registry);
        let matches = command().try_get_matches_from(["rondo", "count", "--all", "x"]).unwrap();
        let (kind, verb, words) = asked(&matches, &registry).unwrap();
        assert_eq!((kind, verb.name, words), ("counting", "count", vec!["--all".to_owned(), "x".to_owned()]));
        assert!(command().render_long_help().to_string().contains("Count what was counted"));
        let matches = command().try_get_matches_from(["rondo", "threads"]).unwrap();
        assert!(asked(&matches, &registry).is_none());
    }
}
