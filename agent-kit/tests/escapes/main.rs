//! The escape corpus: attempts to get past a sandbox, each tried with the sandbox, where it must fail, and without, where it
//! must succeed: an attempt that would fail anyway proves nothing.

mod files;
mod http;
mod process;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};

/// One attempt to get past a sandbox.
pub struct Attempt {
    /// What is tried, as `files::dot_dot`.
    pub name: &'static str,
    /// Tries it with the sandbox. `Ok` = the sandbox held and said so with a typed error; `Err` = how it was got past.
    pub with_sandbox: fn() -> Result<(), String>,
    /// Tries it without.
    pub without: Without,
}

/// The same attempt without the sandbox.
pub enum Without {
    /// It gets through; `Err` = it did not, so that the attempt proves nothing.
    Succeeds(fn() -> Result<(), String>),
    /// It cannot be tried, and why.
    Cannot(&'static str),
}

/// The least number of attempts that the corpus holds.
const AT_LEAST: usize = 60;

fn main() -> ExitCode {
    // This binary is the launcher of sandboxed programs, the programs that attack, and a host that is killed.
    if let Some(end) = rondo_agent_kit::sandbox::process::entered().or_else(process::entered) {
        return end;
    }
    let arguments = Arguments::from_args();
    let attempts: Vec<Attempt> =
        [files::attempts(), process::attempts(), http::attempts()].into_iter().flatten().collect();
    let count = attempts.len();
    let mut trials: Vec<Trial> = attempts.into_iter().flat_map(trials).collect();
    trials.extend(process::works());
    trials.push(Trial::test("the_corpus_is_large", move || {
        if count >= AT_LEAST { Ok(()) } else { Err(format!("{count} attempts, fewer than {AT_LEAST}").into()) }
    }));
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn trials(attempt: Attempt) -> Vec<Trial> {
    let Attempt { name, with_sandbox, without } = attempt;
    let held = Trial::test(format!("{name}::is_held"), move || with_sandbox().map_err(Failed::from));
    let free = match without {
        Without::Succeeds(run) => {
            Trial::test(format!("{name}::succeeds_without_the_sandbox"), move || run().map_err(Failed::from))
        }
        Without::Cannot(why) => Trial::test(format!("{name}::cannot_be_tried_without_the_sandbox ({why})"), || Ok(())),
    };
    vec![held, free]
}
