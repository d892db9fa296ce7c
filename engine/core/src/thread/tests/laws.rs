//! Laws of the machine over random workflows: `order_free`, `durable_first` (which the driver checks for every
//! action), and that a machine restored from rows behaves like one that followed the steps.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use rondo_protocol::Value;

use super::driver::*;

/// Generates random workflows with fan-outs that wait for every lane. Lanes only fail where their fan-out continues
/// without them.
struct Generator {
    random: Random,
    roles: String,
    graph: String,
    count: usize,
    /// Roles that answer with a list, and those that may fail or answer `bad`.
    lists: Vec<String>,
    failing: Vec<String>,
    is_nested: bool,
}

impl Generator {
    fn workflow(seed: u64) -> (String, Script) {
        let mut generator = Self {
            random: Random(mixed(seed)),
            roles: String::new(),
            graph: String::new(),
            count: 0,
            lists: Vec::new(),
            failing: Vec::new(),
            is_nested: seed.is_multiple_of(2),
        };
        let fans = 1 + generator.random.below(2);
        let first = generator.fan(0, fans, "end", false);
        let start = format!("  start: {{ to: {first}, prompt: go }}\n");
        let text = format!(
            "rondo: 1\nname: w\nroles:\n{}graph:\n{start}{}result: {{ text: \"{{{{ body }}}}\" }}\nlimits: {{ steps: 100000 }}\n",
            generator.roles, generator.graph
        );
        let Self { lists, failing, .. } = generator;
        (text, scripted(seed, lists, failing))
    }

    /// Adds a role that leads to a fan-out, its lanes and its join, and returns that role. The last join leads to
    /// `then`.
    fn fan(&mut self, depth: usize, fans: usize, then: &str, may_fail: bool) -> String {
        let (source, join) = (self.name("s"), self.name("j"));
        let goes_on = self.random.chance(50);
        let failed = match self.random.below(3) {
            _ if !goes_on => "fail",
            0 => "skip",
            _ => "collect",
        };
        let may_fail_within = goes_on || may_fail && self.random.chance(50);
        let may_fail_within = may_fail_within && failed != "fail";
        let prompt = match self.random.below(3) {
            0 => String::new(),
            1 => ", prompt: '{% for b in branches %}{{ b.role }}{{ b.index }}{{ b.status }}{{ b.part }}{% if b.error %}{{ b.error.code }}{% endif %};{% endfor %}'".to_owned(),
            _ => format!(", prompt: '{{{{ steps.{source}.visits }}}} {{{{ branches | length }}}}'"),
        };
        let join_of = format!("{{ to: {join}, failed: {failed}{prompt} }}");
        let fan = if self.random.chance(40) {
            let lane = self.lane(depth + 1, &join, may_fail_within);
            let parallel = 1 + self.random.below(3);
            self.lists.push(source.clone());
            format!(
                "to: {lane}, each: output.items, as: it{depth}, parallel: {parallel}, prompt: '{{{{ index }}}} {{{{ it{depth} }}}} {{{{ body }}}}', join: {join_of}"
            )
        } else {
            let lanes: Vec<String> = (0..2 + self.random.below(2))
                .map(|_| {
                    let lane = self.lane(depth + 1, &join, may_fail_within);
                    match self.random.below(4) {
                        0 => format!("{{ to: {lane}, prompt: 'own {{{{ body }}}}' }}"),
                        1 => format!("{{ to: {lane}, when: 'steps.{source}.visits < 2' }}"),
                        _ => lane,
                    }
                })
                .collect();
            format!("to: [{}], prompt: '{{{{ body }}}}', join: {join_of}", lanes.join(", "))
        };
        self.role(&source, &format!("done: {{ {fan} }}"));
        let after = if fans > 1 { self.fan(depth, fans - 1, then, may_fail) } else { then.to_owned() };
        let uses_branches = self.random.chance(40);
        let said = if uses_branches { "{% for b in branches %}{{ b.part }},{% endfor %}" } else { "{{ body }}" };
        let said = if after == "end" { String::new() } else { format!(", prompt: '{said}'") };
        let edge = if self.random.chance(40) {
            let bound = 1 + self.random.below(2);
            format!("done: {{ to: {source}, prompt: again, max: {bound}, on_max: {{ to: {after}{said} }} }}")
        } else {
            format!("done: {{ to: {after}{said} }}")
        };
        self.role(&join, &edge);
        source
    }

    /// The first role of a lane that ends at `join`.
    fn lane(&mut self, depth: usize, join: &str, may_fail: bool) -> String {
        if depth < 3 && self.is_nested && self.random.chance(45) {
            return self.fan(depth, 1, join, may_fail);
        }
        let first = self.name("l");
        let rest = if self.random.chance(40) { self.lane(depth + 5, join, may_fail) } else { join.to_owned() };
        let mut edges = if self.random.chance(25) {
            format!(
                "done: {{ to: {first}, prompt: more, max: 1, on_max: {{ to: {rest}, prompt: '{{{{ body }}}} {{{{ steps.{first}.visits }}}}' }} }}"
            )
        } else {
            format!("done: {{ to: {rest}, prompt: '{{{{ body }}}}' }}")
        };
        if may_fail {
            self.failing.push(first.clone());
            edges += ", bad: { to: fail, reason: 'bad {{ body }}' }";
            if self.random.chance(30) {
                write!(edges, ", on_error: {{ to: {rest}, prompt: '{{{{ output.message }}}}' }}").unwrap();
            }
        }
        self.role(&first, &edges);
        match self.random.below(8) {
            0 => self.rule(&first),
            1 => self.selector(&first),
            _ => first,
        }
    }

    /// A rule in front of a role.
    fn rule(&mut self, then: &str) -> String {
        let rule = self.name("r");
        let odd = "odd: { when: 'body == \"x\"' }, done: { said: 'body' }";
        writeln!(self.roles, "  {rule}: {{ kind: rule, output: {{ {odd} }} }}").unwrap();
        let edges =
            format!("odd: {{ to: {then}, prompt: odd }}, done: {{ to: {then}, prompt: '{{{{ output.said }}}}' }}");
        writeln!(self.graph, "  {rule}: {{ {edges} }}").unwrap();
        rule
    }

    /// A selector without a model in front of a role.
    fn selector(&mut self, then: &str) -> String {
        let selector = self.name("c");
        let by = ["round_robin", "least_recent", "{ expression: '\"b\" if body == \"x\" else \"a\"' }"];
        let by = by[self.random.below(by.len())];
        writeln!(self.roles, "  {selector}: {{ kind: selector, by: {by} }}").unwrap();
        let edges = format!("a: {{ to: {then}, prompt: a }}, b: {{ to: {then}, prompt: '{{{{ output.reason }}}}' }}");
        writeln!(self.graph, "  {selector}: {{ {edges} }}").unwrap();
        selector
    }

    fn name(&mut self, of: &str) -> String {
        self.count += 1;
        format!("{of}{}", self.count)
    }

    fn role(&mut self, role: &str, edges: &str) {
        let is_listing = self.lists.iter().any(|known| known == role);
        let done = if is_listing { "done: { items: \"string[]\" }" } else { "done: {}" };
        let bad = if edges.contains("bad:") { ", bad: {}" } else { "" };
        let kind = if self.random.chance(15) { "kind: human" } else { "system: S., context: none" };
        writeln!(self.roles, "  {role}: {{ {kind}, output: {{ {done}{bad} }} }}").unwrap();
        writeln!(self.graph, "  {role}: {{ {edges} }}").unwrap();
    }
}

/// Answers that depend only on the role, its place and its prompt.
fn scripted(seed: u64, lists: Vec<String>, failing: Vec<String>) -> Script {
    Arc::new(move |visit| {
        let role = visit.role.to_string();
        let whole = format!("{seed} {role} {} {} {}", visit.lane, visit.visit, visit.prompt);
        let hash = whole
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        let mut random = Random(hash);
        if failing.contains(&role) {
            match random.below(8) {
                0 => return Reply::read("!error"),
                1 => return Reply::read("!timeout"),
                2 => return Reply::read("bad|worse"),
                _ => {}
            }
        }
        let most = if visit.lane.is_trunk() { 4 } else { 3 };
        let items = (0..random.below(most)).map(|item| Value::from(format!("i{item}"))).collect();
        let output = if lists.contains(&role) {
            Value::from_iter([("items", Value::List(items))])
        } else {
            Value::empty_object()
        };
        Reply::Says { status: "done".to_owned(), body: format!("{:x}", hash & 0xfff), output }
    })
}

/// Runs with random orders of inputs, and optionally with crashes between any two.
fn run(graph: &Arc<crate::graph::Graph>, script: &Script, random: &mut Random, crashes: bool) -> Thread {
    let mut thread = Thread::with_input(Arc::clone(graph), Arc::clone(script), Value::empty_object());
    thread.begin();
    let mut left = if crashes { 1 + random.below(4) } else { 0 };
    while let Some(event) = thread.next(&mut |count| random.below(count)) {
        thread.happens(&event);
        assert!(thread.stopped.is_none(), "{}", thread.text());
        if left > 0 && thread.finished.is_none() && random.chance(15) {
            left -= 1;
            let survive = random.below(thread.pending.len() + 1);
            let how = if random.chance(70) { How::Restore } else { How::Follow };
            thread.crash(survive, how);
        }
    }
    assert!(thread.finished.is_some(), "{}", thread.text());
    thread
}

fn count_of(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|count| count.parse().ok()).unwrap_or(default)
}

/// Reports the seed when a test fails.
struct Seed(u64, String);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("RONDO_TEST_SEED={} of\n{}", self.0, self.1);
        }
    }
}

/// How many workflows to try: 10,000, or fewer in a build without optimizations unless `RONDO_TEST_GRAPHS` is set.
fn graphs() -> u64 {
    count_of("RONDO_TEST_GRAPHS", if cfg!(debug_assertions) { 500 } else { 10_000 })
}

/// Law `order_free`. `RONDO_TEST_GRAPHS` sets the number of workflows, `RONDO_TEST_SEED` the first seed.
#[test]
fn order_free() {
    let (first, graphs) = (count_of("RONDO_TEST_SEED", 1), graphs());
    let (mut nested, mut failed, mut lanes) = (0, 0, 0_usize);
    for seed in first..first + graphs {
        let (text, script) = Generator::workflow(seed);
        let seed = Seed(seed, text);
        let graph = graph(&seed.1);
        let mut random = Random(mixed(seed.0 ^ 0x5eed));
        let one = run(&graph, &script, &mut random, false);
        let other = run(&graph, &script, &mut random, !seed.0.is_multiple_of(3));
        let contents = |thread: &Thread| -> BTreeMap<_, _> {
            let place = |made: &Stored1| (made.step.lane.clone(), made.step.role.clone(), made.visit);
            thread.rows.steps.iter().map(|made| (place(made), made.digest)).collect()
        };
        assert!(contents(&one) == contents(&other), "two heads:\n{}\n\n{}", one.text(), other.text());
        assert_eq!(one.rows.head(), other.rows.head());
        assert_eq!(one.end(), other.end());
        for thread in [&one, &other] {
            let Rows { lanes, journals, .. } = &thread.rows;
            assert!(lanes.is_empty() && journals.is_empty(), "{lanes:?} {journals:?}");
        }
        nested += usize::from(one.rows.steps.iter().any(|made| made.step.lane.parts().count() > 1));
        failed += usize::from(one.lanes_ended().iter().any(|lane| lane.ends_with("failed")));
        lanes += one.lanes_ended().len();
    }
    println!("{graphs} workflows, {nested} nested, {failed} with failed lanes, {lanes} lanes");
}

/// After any number of commits a machine restored from rows and one that followed the steps do the same.
#[test]
fn a_machine_of_rows_does_what_a_machine_of_steps_does() {
    let (first, graphs) = (count_of("RONDO_TEST_SEED", 1), graphs() / 20);
    let mut restored = 0;
    for seed in first..first + graphs {
        let (text, script) = Generator::workflow(seed);
        let seed = Seed(seed, text);
        let graph = graph(&seed.1);
        let mut random = Random(mixed(seed.0));
        let mut thread = Thread::with_input(Arc::clone(&graph), Arc::clone(&script), Value::empty_object());
        thread.begin();
        let crash_at = random.below(30);
        for _ in 0..crash_at {
            let Some(event) = thread.next(&mut |count| random.below(count)) else { break };
            thread.happens(&event);
        }
        if thread.finished.is_some() {
            continue;
        }
        restored += 1;
        let goes_on = |how: How| {
            let mut twin = Thread::with_input(Arc::clone(&graph), Arc::clone(&script), Value::empty_object());
            twin.rows = thread.rows.clone();
            twin.crash(0, how);
            // The order of lanes is insignificant.
            twin.last_actions.sort();
            let mut actions = vec![twin.last_actions.clone()];
            let mut random = Random(seed.0);
            while let Some(event) = twin.next(&mut |count| random.below(count)) {
                twin.happens(&event);
                actions.push(twin.last_actions.clone());
            }
            actions
        };
        let (of_rows, of_steps) = (goes_on(How::Restore), goes_on(How::Follow));
        assert!(of_rows == of_steps, "{of_rows:#?}\n{of_steps:#?}");
    }
    println!("{restored} threads");
}
