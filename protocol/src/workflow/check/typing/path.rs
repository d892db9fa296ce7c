//! The type of a path where it is used, and whether it may be used there.

use std::ops::Range;

use super::super::indexed_graph::IndexedGraph;
use super::super::types::{Known, Member, Type};
use super::{TypeEnv, Typing, Want, either, presence};
use crate::diagnostic::{Code, did_you_mean, nearest};
use crate::workflow::Field;
use crate::workflow::template::expr::Root;
use crate::workflow::template::{Path, Segment, filter_called};

impl<'w> Typing<'_, 'w> {
    /// A member of a value that is not a path.
    pub(super) fn member(&mut self, base: &Known<'w>, segment: &Segment, range: &Range<usize>) -> Known<'w> {
        let found = match &base.kind {
            Type::Step(role) => step_member(self.env, &base.kind, segment, &all_statuses(self.env, *role)),
            Type::PastStep(_, statuses) => step_member(self.env, &base.kind, segment, statuses),
            kind => kind.member(segment),
        };
        match found {
            Member::Known(known) => return known,
            Member::Unknown(known) => self.unknown_member("this", segment, &known, range),
            Member::NotAnObject => self.not_an_object("this", &base.kind, segment, range),
        }
        Type::Any.into()
    }

    fn unknown_member(&mut self, of: &str, segment: &Segment, known: &[String], range: &Range<usize>) {
        let name = segment.to_string();
        let name = name.trim_start_matches('.');
        let hint = did_you_mean(name, known.iter().map(String::as_str)).unwrap_or_else(|| match known {
            [] => "it has no fields".to_owned(),
            known => format!("it has {}", listed(known.iter().map(String::as_str))),
        });
        self.fault(Code::UnknownField, range, format!("{of} has no `{name}`"), hint);
    }

    fn not_an_object(&mut self, of: &str, kind: &Type<'_>, segment: &Segment, range: &Range<usize>) {
        let name = segment.to_string();
        let name = name.trim_start_matches('.');
        let message = format!("{of} is a {} and has no `{name}`", kind.name());
        let hint = match filter_called(name) {
            Some(filter) if of != "this" => format!("write `{} | {filter}`", of.trim_matches('`')),
            Some(filter) => format!("append `| {filter}`"),
            None if matches!(kind, Type::List(_)) => "go over it with `for`, or take `| first`".to_owned(),
            None => "end the path here".to_owned(),
        };
        self.fault(Code::UnknownField, range, message, hint);
    }

    pub(super) fn path(&mut self, path: &Path, range: &Range<usize>, want: Want) -> Known<'w> {
        let mut written = path.root().to_owned();
        let (mut known, rest) = match &path.root {
            Root::Local { up, slot, .. } => {
                let given = self.loops.iter().rev().nth(*up).and_then(|names| names.get(*slot));
                (given.cloned().unwrap_or(Type::Any.into()), path.segments())
            }
            Root::Name(name) if &**name == "steps" => match path.segments() {
                [] => return Type::Object.into(),
                [Segment::Name(role), rest @ ..] => {
                    written = format!("steps.{role}");
                    match self.step(role, range, want) {
                        Some(known) => (known, rest),
                        None => return Type::Any.into(),
                    }
                }
                [segment, ..] => {
                    self.unknown_member("steps", segment, &[], range);
                    return Type::Any.into();
                }
            },
            Root::Name(name) => match self.root(name, range) {
                Some(known) => (known, path.segments()),
                None => return Type::Any.into(),
            },
        };
        // The steps whose output is read.
        let mut steps = if written == "output" && !path.is_local() { self.steps_here() } else { Vec::new() };
        for (position, segment) in rest.iter().enumerate() {
            // If this part is absent the path breaks off, and the whole path is absent.
            let mut breaks_off = known.optional && !self.is_present(&written);
            if breaks_off && !matches!(want, Want::Presence | Want::Condition) {
                self.absent(&written, range);
                breaks_off = false;
            }
            let of_step = match &known.kind {
                Type::Step(role) => Some((*role, self.env.flow.statuses(&self.env.state, *role))),
                Type::PastStep(role, statuses) => Some((*role, statuses.clone())),
                _ => None,
            };
            let found = match of_step {
                Some((role, statuses)) => {
                    let whole = path.segments().len() - rest.len() + position;
                    let step = path.segments().get(..whole).unwrap_or_default();
                    let step = presence::step_name(path, step, self.loops.len());
                    let narrowed = self.facts.narrowed.iter().filter(|(written, _)| Some(written) == step.as_ref());
                    let statuses =
                        narrowed.fold(statuses, |statuses, (_, words)| self.with_words(role, statuses, words));
                    steps = statuses.iter().map(|status| (role, *status)).collect();
                    step_member(self.env, &known.kind, segment, &statuses)
                }
                None => known.kind.member(segment),
            };
            let of = format!("`{written}`");
            written.push_str(&segment.to_string());
            let is_sure = position == 0 && self.is_sure_branch(path);
            known = match found {
                Member::Known(next) if is_sure => Known { optional: false, ..next },
                Member::Known(next) => next.or_absent(breaks_off),
                refused => {
                    match refused {
                        Member::Unknown(names) => {
                            self.missing_field(&of, segment, (&names, &steps), &known, range, want);
                        }
                        _ => self.not_an_object(&of, &known.kind, segment, range),
                    }
                    return Type::Any.into();
                }
            };
        }
        if self.is_present(&written) {
            known.optional = false;
        }
        if known.optional && matches!(want, Want::Print | Want::Operand) {
            self.absent(&written, range);
            known.optional = false;
        }
        known
    }

    /// Whether it is a path into `branches`, which is always long enough for its index.
    fn is_sure_branch(&self, path: &Path) -> bool {
        let least = self.env.branches.as_ref().map_or(0, |branches| branches.least);
        !path.is_local()
            && path.root() == "branches"
            && matches!(path.segments(), [Segment::Index(index), ..] if *index < least)
    }

    fn absent(&mut self, written: &str, range: &Range<usize>) {
        let hint = format!("test for it first, `{{% if {written} %}}`, or append `| default(...)`");
        self.fault(Code::OptionalUnguarded, range, format!("`{written}` may be absent"), hint);
    }

    /// Reports a field that none or only some of the statuses declare.
    fn missing_field(
        &mut self,
        of: &str,
        segment: &Segment,
        (names, steps): (&[String], &[(usize, usize)]),
        base: &Known<'w>,
        range: &Range<usize>,
        want: Want,
    ) {
        let (Segment::Name(name), Type::Fields(_)) = (segment, &base.kind) else {
            return self.unknown_member(of, segment, names, range);
        };
        if nearest(name, names.iter().map(String::as_str)).is_none() && !self.is_whole(of, steps) {
            return;
        }
        let indexed = self.env.indexed;
        let declares = |(role, status): &(usize, usize)| {
            fields_of(indexed, *role, *status).iter().any(|(field, _)| **field == **name)
        };
        let without = steps.iter().filter(|step| !declares(step));
        let without: Vec<&str> = without.filter_map(|(role, status)| indexed.status(*role, *status)).collect();
        if without.is_empty() || without.len() == steps.len() {
            return self.unknown_member(of, segment, names, range);
        }
        if want == Want::Presence {
            return;
        }
        let message =
            format!("{of} has no `{name}` when the status is {}, which may lead here", listed(without.into_iter()));
        let hint = format!("declare `{name}` under each of these statuses, or append `| default(...)`");
        self.fault(Code::FieldNotInEveryStatus, range, message, hint);
    }

    /// Whether all fields of what is written as `of` could be read.
    fn is_whole(&self, of: &str, steps: &[(usize, usize)]) -> bool {
        let indexed = self.env.indexed;
        if of == "`input`" {
            return indexed.has_whole_input;
        }
        steps.iter().all(|(role, _)| indexed.roles.get(*role).is_none_or(|role| role.is_whole))
    }

    fn root(&mut self, name: &str, range: &Range<usize>) -> Option<Known<'w>> {
        let env = self.env;
        if let Some((_, known)) = env.names.iter().find(|(given, _)| *given == name) {
            return Some(known.clone());
        }
        let (message, hint) = match (name, env.without_step) {
            ("input", _) => {
                let inputs = env.indexed.workflow.input.iter();
                let fields = inputs.map(|(name, field)| (name.as_str().to_owned(), input(field)));
                return Some(Type::Fields(fields.collect()).into());
            }
            ("branches", _) if let Some(branches) = &env.branches => {
                return Some(Type::List(Box::new((*branches.element).clone())).into());
            }
            ("output", None) => return Some(common_fields(env.indexed, &self.steps_here()).into()),
            ("status", None) => {
                let roles = env.steps.iter().map(|(role, _)| *role);
                return Some(Known::of_words(possible_statuses(env.indexed, roles)));
            }
            ("body", None) => return Some(Type::Text.into()),
            ("output" | "body" | "status", Some(why)) => {
                let hint = if env.branches.is_some() { "use `branches`, or `steps.ROLE`" } else { "use `input`" };
                (format!("`{name}` is not in scope: {why}"), hint.to_owned())
            }
            _ => (format!("nothing called `{name}` is in scope here"), self.meant(name)),
        };
        self.fault(Code::UnknownVariable, range, message, hint);
        None
    }

    fn meant(&self, name: &str) -> String {
        let env = self.env;
        let mut fields = env.steps.iter().flat_map(|(role, status)| fields_of(env.indexed, *role, *status));
        if env.indexed.workflow.input.iter().any(|(input, _)| input.as_str() == name) {
            return format!("an input is written `input.{name}`");
        }
        if fields.clone().any(|(_, known)| known.words.contains(&name)) {
            return format!("put a word in quotes: `\"{name}\"`");
        }
        if fields.any(|(field, _)| *field == *name) {
            return format!("a field is written `output.{name}`");
        }
        if env.indexed.number(name).is_some() {
            return format!("a role's step is written `steps.{name}`");
        }
        let hint = match name {
            "branches" => "`branches` is in scope in a join's prompt and on the edges of its role",
            "null" | "nil" | "undefined" => "write `none`",
            "item" | "index" => "this is in scope in a lane",
            _ => {
                let roots = ["input", "output", "body", "status", "steps"].into_iter();
                let near = did_you_mean(name, roots.chain(env.names.iter().map(|(given, _)| *given)));
                &near.unwrap_or_else(|| "in scope are `input`, `output`, `body`, `status` and `steps`".to_owned())
            }
        };
        hint.to_owned()
    }

    fn step(&mut self, role: &str, range: &Range<usize>, want: Want) -> Option<Known<'w>> {
        let env = self.env;
        let Some(number) = env.indexed.number(role) else {
            if env.indexed.unread.contains(role) {
                return None;
            }
            let hint = did_you_mean(role, env.indexed.names());
            let hint = hint.unwrap_or_else(|| format!("the roles are {}", listed(env.indexed.names())));
            self.fault(Code::UnknownField, range, format!("there is no role `{role}`"), hint);
            return None;
        };
        let missing = env.state.contains(env.flow.not_run_bit(number));
        if missing && want != Want::Presence && !self.is_present(&format!("steps.{role}")) {
            let message = format!("`{role}` may not have run when this is read");
            let hint = format!("test for it first, `{{% if steps.{role} %}}`, or append `| default(...)`");
            self.fault(Code::StepMayBeMissing, range, message, hint);
            return None;
        }
        Some(Type::Step(number).into())
    }
}

/// A member of a role's step, which may have one of these statuses.
fn step_member<'w>(env: &TypeEnv<'_, 'w>, kind: &Type<'w>, segment: &Segment, statuses: &[usize]) -> Member<'w> {
    let (Type::Step(role) | Type::PastStep(role, _)) = *kind else { return Member::NotAnObject };
    let Segment::Name(name) = segment else { return Member::NotAnObject };
    let steps: Vec<(usize, usize)> = statuses.iter().map(|status| (role, *status)).collect();
    let is_latest = matches!(kind, Type::Step(_));
    Member::Known(match &**name {
        "status" => Known::of_words(possible_statuses(env.indexed, [role])),
        "body" | "prompt" => Type::Text.into(),
        "output" => common_fields(env.indexed, &steps).into(),
        "visits" if is_latest => Type::Number.into(),
        "all" if is_latest => Type::List(Box::new(Type::PastStep(role, all_statuses(env, role)).into())).into(),
        "visit" if !is_latest => Type::Number.into(),
        _ => {
            let own: &[&str] = if is_latest { &["visits", "all"] } else { &["visit"] };
            let names = ["status", "output", "body", "prompt"].iter().chain(own);
            return Member::Unknown(names.map(|name| (*name).to_owned()).collect());
        }
    })
}

/// All statuses that steps of these roles can have; none if the statuses of one could not be read.
fn possible_statuses<'w>(indexed: &IndexedGraph<'w>, roles: impl IntoIterator<Item = usize>) -> Vec<&'w str> {
    let mut possible: Vec<&str> = Vec::new();
    for role in roles.into_iter().filter_map(|role| indexed.roles.get(role)) {
        if !role.is_whole {
            return Vec::new();
        }
        for status in &role.statuses {
            if !possible.contains(status) {
                possible.push(status);
            }
        }
    }
    possible
}

fn all_statuses(env: &TypeEnv<'_, '_>, role: usize) -> Vec<usize> {
    // A step with a reserved status is present only after an edge of that status.
    env.indexed.roles.get(role).map_or_else(Vec::new, |role| (0..role.role.output.len()).collect())
}

pub(in crate::workflow::check) fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    const SHOWN: usize = 12;
    let mut names: Vec<String> = names.take(SHOWN + 1).map(|name| format!("`{name}`")).collect();
    if names.len() > SHOWN {
        names.truncate(SHOWN);
        names.push("...".to_owned());
    }
    names.join(", ")
}

/// An input with a default is always present.
fn input(field: &Field) -> Known<'_> {
    let optional = field.optional && field.schema.get("default").is_none();
    Known::of(&field.schema).or_absent(optional)
}

pub(super) fn fields_of<'w>(indexed: &IndexedGraph<'w>, role: usize, status: usize) -> Vec<(&'w str, Known<'w>)> {
    let Some(role) = indexed.roles.get(role) else { return Vec::new() };
    // A reserved status has no declared fields.
    let Some((_, fields)) = role.role.output.get(status) else {
        return vec![("code", Type::Text.into()), ("message", Type::Text.into())];
    };
    let field_of = |field: &'w Field| Known::of(&field.schema).or_absent(field.optional);
    fields.iter().map(|(name, field)| (name.as_str(), field_of(field))).collect()
}

/// The fields that all these steps have.
fn common_fields<'w>(indexed: &IndexedGraph<'w>, steps: &[(usize, usize)]) -> Type<'w> {
    let mut steps = steps.iter();
    let Some((role, status)) = steps.next() else { return Type::Any };
    let mut common = fields_of(indexed, *role, *status);
    for (role, status) in steps {
        let other = fields_of(indexed, *role, *status);
        let both = common.into_iter().filter_map(|(name, known)| {
            let (_, found) = other.iter().find(|(field, _)| *field == name)?;
            Some((name, either(known, found.clone())))
        });
        common = both.collect();
    }
    Type::Fields(common.into_iter().map(|(name, known)| (name.to_owned(), known)).collect())
}
