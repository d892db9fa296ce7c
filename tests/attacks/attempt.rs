//! One attempt: what is set up, what is done, what must not have happened, and the double in which it does happen.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::scene::{Program, Scene, Who};

type Act = Box<dyn Fn(&Scene<'_>)>;
type Harm = Box<dyn Fn(&Scene<'_>) -> bool>;

/// One attempt.
pub struct Attempt {
    /// What is tried.
    pub name: String,
    /// Whether issue 11 names this shape.
    pub is_named: bool,
    set_up: Act,
    tried: Act,
    /// The same below the public face of the binary, with the defence off: whether harm was done.
    double: Harm,
    needs_root: bool,
}

impl Attempt {
    /// One whose shape the issue names.
    pub fn named(name: impl Into<String>) -> Self {
        Self::of(name, true)
    }

    /// One of another shape.
    pub fn other(name: impl Into<String>) -> Self {
        Self::of(name, false)
    }

    /// One of either.
    pub fn of(name: impl Into<String>, is_named: bool) -> Self {
        Self {
            name: name.into(),
            is_named,
            set_up: Box::new(|_| {}),
            tried: Box::new(|_| {}),
            double: Box::new(|_| false),
            needs_root: false,
        }
    }

    /// The same, of a shape that the issue does not name.
    pub fn unnamed(self) -> Self {
        Self { is_named: false, ..self }
    }

    /// What lies there before.
    pub fn set_up(self, set_up: impl Fn(&Scene<'_>) + 'static) -> Self {
        Self { set_up: Box::new(set_up), ..self }
    }

    /// What the victim does, and what is held of it besides that nothing happened outside.
    pub fn tried(self, tried: impl Fn(&Scene<'_>) + 'static) -> Self {
        Self { tried: Box::new(tried), ..self }
    }

    /// The same with the defence off: whether harm was done.
    pub fn double(self, double: impl Fn(&Scene<'_>) -> bool + 'static) -> Self {
        Self { double: Box::new(double), ..self }
    }

    /// Its setting needs root, who gives files away.
    pub fn needs_root(self) -> Self {
        Self { needs_root: true, ..self }
    }
}

/// Makes every attempt, and fails with the names of those that got through.
pub fn hold(attempts: &[Attempt]) {
    let (own, nobody) = (Program::own(), Program::for_nobody());
    let is_root = rustix::process::geteuid().is_root();
    let only = std::env::var("ATTEMPT").unwrap_or_default();
    let mut through = Vec::new();
    for attempt in attempts.iter().filter(|attempt| attempt.name.contains(&only)) {
        if attempt.needs_root && !is_root {
            println!("skipped: {:?} needs root", attempt.name);
            continue;
        }
        let as_nobody = nobody.as_ref().map(|nobody| (nobody, Who::Nobody));
        for (program, who) in [Some((&own, Who::Own)), as_nobody].into_iter().flatten() {
            let scene = Scene::new(program, who);
            let made = catch_unwind(AssertUnwindSafe(|| {
                (attempt.set_up)(&scene);
                (attempt.tried)(&scene);
                if let Some(harm) = scene.harm() {
                    panic!("{harm}");
                }
            }));
            if let Err(why) = made {
                let why = why.downcast_ref::<String>().map(String::as_str).or(why.downcast_ref::<&str>().copied());
                let why = why.unwrap_or_default();
                // The whole of it was told when it came.
                let why: String = why.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(200).collect();
                through.push(format!("{} (as {who:?}): {why}", attempt.name));
            }
        }
        let scene = Scene::new(&own, Who::Own);
        let harmed = catch_unwind(AssertUnwindSafe(|| {
            (attempt.set_up)(&scene);
            (attempt.double)(&scene)
        }));
        if !harmed.unwrap_or(false) {
            through.push(format!("{}: it does not succeed with the defence off either", attempt.name));
        }
    }
    assert!(
        through.is_empty(),
        "{} failures of {} attempts:\n- {}",
        through.len(),
        attempts.len(),
        through.join("\n- ")
    );
}
