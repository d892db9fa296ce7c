//! Adds the verbs of hook kinds to the command line, and their flags to `run` and `resume`. The registry lists them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgMatches, Command};
use futures_util::future::BoxFuture;
use rondo::core::conversation::rebuild;
use rondo::core::env::Env;
use rondo::core::grant::Grants;
use rondo::core::hook::{
    Action, Argument, Flag, HookKind, KeySpace, Registry, Subcommand, SubcommandContext, SubcommandOutput, subcommand,
};
use rondo::core::local::origin;
use rondo::core::thread::Origin;
use rondo::core::{Engine, SystemEnv};
use rondo::host::answers_from::ReplaySource;
use rondo::host::consent::ConsentRequest;
use rondo::protocol::diagnostic::Code;
use rondo::protocol::id::ThreadId;
use rondo::settings::Flags;
use rondo::store::Read;

use super::find_thread::find_thread;
use super::person::consent_by;
use super::result::View;
use super::run_config::{RunSpec, replaying};
use super::runner::{Task, Writing, show_task};
use super::store_access::{existing_store_at, secret, trusted_store};
use super::{Exit, Failure, Output, working_folder};

const THREAD: &str = "thread";
const STORE: &str = "store";
const TRUST: &str = "trust";

/// The verbs that get the flags of kinds.
const WITH_FLAGS: [&str; 4] = ["run", "resume", "answer", "fork"];

/// The verb whose calls must all reach their ports.
const REACHING: &str = "record";

pub fn mount(mut command: Command, registry: &Registry) -> Command {
    for flag in registry.kinds().flat_map(|kind| kind.flags()) {
        for verb in WITH_FLAGS {
            let add = |command: Command| {
                if command.get_arguments().any(|arg| arg.get_id() == flag.name) {
                    return command;
                }
                let values = PossibleValuesParser::new(flag.values.iter().copied());
                let arg = Arg::new(flag.name).long(flag.name).value_name("HOW").value_parser(values).help(flag.about);
                command.arg(arg.default_value(flag.values.first().copied().unwrap_or_default()))
            };
            command = command.mut_subcommand(verb, add);
        }
    }
    for verb in registry.kinds().flat_map(|kind| kind.subcommands()) {
        if command.find_subcommand(verb.name).is_none() {
            let new = Command::new(verb.name).about(verb.about).subcommand_required(true).arg_required_else_help(true);
            command = command.subcommand(new);
        }
        for action in verb.actions {
            command = command.mut_subcommand(verb.name, |verb| with_action(verb, &action));
        }
    }
    command
}

/// Adds an action to a verb; an action of two kinds takes the arguments of both.
fn with_action(mut verb: Command, action: &Action) -> Command {
    if verb.find_subcommand(action.name).is_none() {
        let store = Arg::new(STORE)
            .long(STORE)
            .value_name("DIR")
            .help("The folder of the store [default: .rondo beside the nearest rondo.toml, else here]");
        let mut command = Command::new(action.name).about(action.about).arg(store).arg(super::json());
        if action.name == LEARNING {
            let trust = Arg::new(TRUST).long(TRUST).action(clap::ArgAction::SetTrue);
            command = command.arg(trust.help("Consent, for this run, to learn from what was imported"));
        }
        verb = verb.subcommand(command);
    }
    verb.mut_subcommand(action.name, |command| {
        let add = |command: Command, argument: &Argument| {
            if command.get_arguments().any(|arg| arg.get_id() == argument.name) {
                return command;
            }
            let arg = Arg::new(argument.name).value_name(argument.value).help(argument.about);
            command.arg(if argument.is_positional { arg.required(true) } else { arg.long(argument.name) })
        };
        action.arguments.iter().fold(command, add)
    })
}

/// The flags of kinds given to `run` or `resume`, or those that make every call of `record` reach its port.
pub fn flags(matches: &ArgMatches, registry: &Registry) -> BTreeMap<String, String> {
    let flags = registry.kinds().flat_map(|kind| kind.flags());
    let value = |flag: &Flag| match matches.subcommand()? {
        (verb, given) if WITH_FLAGS.contains(&verb) => given.get_one::<String>(flag.name).cloned(),
        (REACHING, _) => flag.reaching.map(str::to_owned),
        _ => None,
    };
    flags.filter_map(|flag| Some((flag.name.to_owned(), value(&flag)?))).collect()
}

pub struct Called {
    verb: String,
    action: String,
    asked: subcommand::Arguments,
    store: Option<std::path::PathBuf>,
    trust: bool,
}

/// The called verb of a hook kind; `None` for a verb of rondo.
pub fn called(matches: &ArgMatches, registry: &Registry) -> Option<Called> {
    let (verb, given) = matches.subcommand()?;
    let (action, given) = actions(registry, verb).next().and(given.subcommand())?;
    let of_action = actions(registry, verb).filter(|(_, known)| known.name == action);
    let names = of_action.flat_map(|(_, known)| known.arguments.iter().map(|argument| argument.name));
    let value = |name: &str| Some((name.to_owned(), given.get_one::<String>(name)?.clone()));
    Some(Called {
        verb: verb.to_owned(),
        action: action.to_owned(),
        asked: names.filter_map(value).collect(),
        store: given.get_one::<String>(STORE).map(Into::into),
        trust: action == LEARNING && given.get_flag(TRUST),
    })
}

fn actions<'r>(registry: &'r Registry, verb: &'r str) -> impl Iterator<Item = (&'r Arc<dyn HookKind>, Action)> {
    let of_kind = move |kind: &'r Arc<dyn HookKind>| {
        let verbs = kind.subcommands().into_iter().filter(|known| known.name == verb);
        let actions: Vec<Action> = verbs.flat_map(|known| known.actions).collect();
        actions.into_iter().map(move |action| (kind, action))
    };
    registry.kinds().flat_map(of_kind)
}

/// The action by which kinds learn the answers of a thread.
const LEARNING: &str = "warm";

pub fn learn(
    thread: &ThreadId,
    (store, trust): (&Path, bool),
    registry: &Registry,
    output: &mut Output,
) -> Result<(), Failure> {
    let verbs = registry.kinds().flat_map(|kind| kind.subcommands());
    let learning = |verb: &Subcommand| verb.actions.iter().any(|action| action.name == LEARNING);
    let verbs: BTreeSet<&str> = verbs.filter(learning).map(|verb| verb.name).collect();
    verbs.into_iter().try_for_each(|verb| {
        let (verb, action, store) = (verb.to_owned(), LEARNING.to_owned(), Some(store.to_owned()));
        let asked = [(THREAD.to_owned(), thread.to_string())].into();
        run(Called { verb, action, asked, store, trust }, registry, output).map(drop)
    })
}

pub fn run(called: Called, registry: &Registry, output: &mut Output) -> Result<Exit, Failure> {
    let Called { verb, action, mut asked, store, trust } = called;
    let by = consent_by(trust, output);
    let rondo = super::rondo(&Flags { store, ..Flags::default() }, by)?;
    let settings = rondo.operator().files.in_force()?;
    let changes = actions(registry, &verb).any(|(_, known)| known.name == action && known.changes);
    let view = existing_store_at(&settings.store.value)?;
    if !changes {
        let (reader, secret): (Arc<dyn Read>, _) = (Arc::from(view.store), secret(&settings)?);
        let context = |kind: &str| StoreContext {
            space: KeySpace::reading(Arc::clone(&reader), kind).with_secret(secret.clone()),
            store: &*reader,
            env: SystemEnv::default(),
            replaying: None,
        };
        let said = super::runtime()?.block_on(say(registry, &verb, &action, &asked, context))?;
        return output.said(&said).map(|()| Exit::Done);
    }
    rondo.operator().files.refuse_unsafe()?;
    let own = trusted_store(&settings, by)?;
    let mut run_spec = None;
    if let Some(word) = asked.get_mut(THREAD) {
        let (id, row) = find_thread(view.store.as_ref(), word)?;
        *word = id.to_string();
        let Origin { script, recorded, imported, .. } = origin(&id, &row)?;
        // What is learned answers other threads.
        ConsentRequest::default().with_past(imported.as_ref(), &settings)?.permitted("", by, &settings)?;
        let workflow = rebuild::beginning(view.store.as_ref(), &row)?.workflow;
        let replay = ReplaySource::named(script.as_deref(), recorded.as_deref(), &workflow, &working_folder()?)?;
        run_spec = Some(rondo.operator().run_spec(settings, Grants::everything(), replay));
    }
    drop(view);
    let task: Task = Box::new(move |context| {
        Box::pin(async move {
            let engine = &context.engine;
            let subcommand_context = |kind: &str| StoreContext {
                space: engine.space(kind),
                store: &**engine.store(),
                env: SystemEnv::default(),
                replaying: run_spec.as_ref().map(|run_spec| Replaying { engine, run_spec, kind: kind.to_owned() }),
            };
            let said =
                context.unless_stopped(say(engine.registry(), &verb, &action, &asked, subcommand_context)).await?;
            context.said(said).await;
            Ok(Exit::Done)
        })
    });
    let view = View { quiet: true, ..View::default() };
    show_task(task, Writing { rondo, to_open: Some(own) }, &view, output)
}

/// Runs the action for every kind that has it, in registry order; an action about a step only for the kinds whose hooks
/// its thread has.
async fn say<'a>(
    registry: &Registry,
    verb: &str,
    action: &str,
    asked: &subcommand::Arguments,
    context: impl Fn(&str) -> StoreContext<'a>,
) -> Result<SubcommandOutput, Failure> {
    let mut all = SubcommandOutput::default();
    let mut absent = Vec::new();
    for (kind, action) in actions(registry, verb).filter(|(_, known)| known.name == action) {
        let context = context(kind.name());
        let is_of_step = action.arguments.iter().any(|argument| argument.name == subcommand::STEP.name);
        if is_of_step && !has_hook(registry, kind.name(), asked, &context)? {
            absent.push(kind.name());
            continue;
        }
        let said = (action.run)(asked.clone(), &context).await;
        let SubcommandOutput { text, lines } = said.map_err(refused)?;
        all.text.push_str(&text);
        all.lines.extend(lines);
    }
    if all == SubcommandOutput::default() && !absent.is_empty() {
        all.text = format!("the thread has no hook of the kind {}\n", absent.join(" or "));
    }
    if all == SubcommandOutput::default() {
        return Err(Failure::new(Code::HookVerb, "no such entry"));
    }
    Ok(all)
}

fn refused(error: String) -> Failure {
    Failure::new(Code::HookVerb, error)
}

/// Whether the thread of the step that `asked` names has a hook of a kind: its file, its policy or a role's settings
/// have one, or the step notes one, as for a hook that the operator imposed.
fn has_hook(
    registry: &Registry,
    kind: &str,
    asked: &subcommand::Arguments,
    context: &StoreContext<'_>,
) -> Result<bool, Failure> {
    let (thread, _, note) = subcommand::step(asked, context).map_err(refused)?;
    if note.hooks.iter().any(|hook| subcommand::is_node_of(kind, &hook.node)) {
        return Ok(true);
    }
    let Some(row) = context.store.row(&thread)? else { return Ok(false) };
    let workflow = rebuild::beginning(context.store, &row)?.workflow;
    let policy = rebuild::policy(context.store, &row)?;
    Ok(registry.nodes(&workflow, &policy, &[]).iter().any(|node| node.hook.kind == kind))
}

struct StoreContext<'a> {
    space: KeySpace,
    store: &'a dyn Read,
    env: SystemEnv,
    replaying: Option<Replaying<'a>>,
}

/// Sends a thread's calls through a kind's hooks again.
struct Replaying<'a> {
    engine: &'a Engine,
    run_spec: &'a RunSpec,
    kind: String,
}

impl SubcommandContext for StoreContext<'_> {
    fn space(&self) -> &KeySpace {
        &self.space
    }

    fn store(&self) -> &dyn Read {
        self.store
    }

    fn env(&self) -> &dyn Env {
        &self.env
    }

    fn thread(&self, word: &str) -> Result<ThreadId, String> {
        find_thread(self.store, word).map(|(id, _)| id).map_err(|failure| failure.to_string())
    }

    fn replay<'a>(&'a self, thread: &'a ThreadId) -> BoxFuture<'a, Result<u64, String>> {
        Box::pin(async move {
            let Some(Replaying { engine, run_spec, kind }) = &self.replaying else {
                return Err("this verb names no thread".to_owned());
            };
            let (workflow, _) = engine.definition(thread).map_err(|error| error.to_string())?;
            let run_config = replaying(&workflow, run_spec).map_err(|failure| failure.to_string())?;
            engine.replay(thread, run_config, kind).await.map_err(|error| error.to_string())
        })
    }
}

// The kinds of caches have both a verb and a flag.
#[cfg(all(test, feature = "caches"))]
mod tests {
    use super::*;

    #[test]
    fn what_a_registry_brings_along_stands_beside_the_rest() {
        let registry = rondo::registry();
        let command = || mount(<crate::CommandLine as clap::CommandFactory>::command(), &registry);
        let matches = command().try_get_matches_from(["rondo", "cache", "explain", "last:1", "--json"]).unwrap();
        let explaining = called(&matches, &registry).unwrap();
        assert_eq!(
            (explaining.verb.as_str(), explaining.action.as_str(), explaining.asked.len()),
            ("cache", "explain", 1)
        );
        let words = ["rondo", "cache", "clear", "--role", "x", "--tool", "y"];
        let matches = command().try_get_matches_from(words).unwrap();
        assert_eq!(called(&matches, &registry).unwrap().asked.len(), 2);
        assert!(command().render_long_help().to_string().contains("Show, explain, fill and clear cached answers"));

        let matches = command().try_get_matches_from(["rondo", "run", "x", "--cache", "off"]).unwrap();
        assert_eq!(flags(&matches, &registry)["cache"], "off");
        let matches = command().try_get_matches_from(["rondo", "resume"]).unwrap();
        assert_eq!(flags(&matches, &registry)["cache"], "on");
        assert!(command().try_get_matches_from(["rondo", "run", "x", "--cache", "maybe"]).is_err());
        let matches = command().try_get_matches_from(["rondo", "record", "x", "--to", "y"]).unwrap();
        assert_eq!(flags(&matches, &registry)["cache"], "refresh");
        assert!(command().try_get_matches_from(["rondo", "record", "x", "--to", "y", "--cache", "on"]).is_err());

        let matches = command().try_get_matches_from(["rondo", "threads"]).unwrap();
        assert!(called(&matches, &registry).is_none());
    }
}
