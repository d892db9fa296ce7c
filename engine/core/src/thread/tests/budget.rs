//! Money and tokens of concurrent lanes.

use rondo_protocol::call::FaultClass;
use rondo_protocol::id::LanePath;
use rondo_protocol::object::{Note, Usage};

use super::super::*;
use super::driver::*;

const WORKFLOW: &str = "rondo: 1
name: w
roles:
  a: { system: S., context: none, limits: { LIMITS } }
graph:
  start: { to: a, prompt: go }
  a:
    done: { to: a, prompt: again, max: 9, on_max: { to: end } }
    on_limit: { to: fail, reason: '{{ output.message }}' }
limits: { THREAD }
";

fn machine(of_role: &str, of_thread: &str) -> Machine {
    Thread::new(&WORKFLOW.replace("LIMITS", of_role).replace("THREAD", of_thread), script(&[])).machine
}

fn lane(index: u32) -> LanePath {
    LanePath::trunk().child(&name("a"), index)
}

fn usage(prompt_tokens: u64, output_tokens: u64) -> Usage {
    Usage { prompt_tokens, output_tokens, ..Usage::default() }
}

/// Random calls in 64 lanes: admitted, settled, committed, cancelled. Returns the total usage.
fn played(machine: &mut Machine, seed: u64, wanted: CallEstimate, is_counted: bool) -> (u64, f64, u64) {
    let mut random = Random(seed);
    let role = name("a");
    let mut in_flight: Vec<(u32, Reservation)> = Vec::new();
    let (mut tokens, mut cost, mut most) = (0, 0.0, 0);
    let mut notes: std::collections::BTreeMap<u32, Note> = std::collections::BTreeMap::new();
    for _ in 0..4_000 {
        let index = u32::try_from(random.below(64)).unwrap();
        let at = in_flight.iter().position(|(of, _)| *of == index);
        match at {
            None if random.chance(20) => {
                // Its step is committed: its usage is in the note.
                let note = notes.remove(&index).unwrap_or_default();
                machine.budget().commit(&lane(index), &role, &note);
            }
            None => match machine.admit(&lane(index), &role, &wanted) {
                Ok(reserved) => in_flight.push((index, reserved)),
                Err(fault) => assert_eq!(fault.class, FaultClass::Limit),
            },
            Some(at) => {
                let (_, reserved) = in_flight.swap_remove(at);
                // Here a token has at least four bytes, and no reply exceeds its maximum.
                let prompt = wanted.prompt_bytes / 4 - random.below(5) as u64;
                let output = random.below(usize::try_from(wanted.max_output_tokens.unwrap_or(50)).unwrap() + 1) as u64;
                let used = Some(usage(prompt, output));
                #[expect(clippy::cast_precision_loss, reason = "small numbers")]
                let price = prompt as f64 * wanted.input_usd.unwrap_or(0.001)
                    + output as f64 * wanted.output_usd.unwrap_or(0.002);
                if random.chance(10) {
                    // An attempt that failed and cost nothing.
                    machine.budget().settle(&reserved, None, None);
                    continue;
                }
                machine.budget().settle(&reserved, used.filter(|_| is_counted), Some(price));
                let note = notes.entry(index).or_default();
                if let Some(used) = used.filter(|_| is_counted) {
                    *note.usage.get_or_insert_default() += used;
                    tokens += prompt + output;
                }
                *note.cost_usd.get_or_insert_default() += price;
                cost += price;
            }
        }
        most = most.max(in_flight.len() as u64);
    }
    (tokens, cost, most)
}

const KNOWN: CallEstimate =
    CallEstimate { prompt_bytes: 400, max_output_tokens: Some(50), input_usd: Some(0.001), output_usd: Some(0.002) };

#[test]
fn lanes_side_by_side_never_pass_what_is_known_beforehand() {
    for seed in 0..20 {
        for (of_role, of_thread) in [("visits: 99", "tokens: 9000"), ("tokens: 9000", "steps: 99")] {
            let (tokens, ..) = played(&mut machine(of_role, of_thread), seed, KNOWN, true);
            assert!((7_000..=9_000).contains(&tokens), "{tokens} of 9000, seed {seed}, {of_role}");
        }
        for (of_role, of_thread) in [("visits: 99", "cost_usd: 9"), ("cost_usd: 9", "steps: 99")] {
            let (_, cost, _) = played(&mut machine(of_role, of_thread), seed, KNOWN, true);
            assert!((7.0..=9.0).contains(&cost), "{cost} of 9 US dollars, seed {seed}, {of_role}");
        }
    }
}

#[test]
fn what_is_not_known_is_passed_by_the_calls_in_flight_at_most() {
    let unknown = CallEstimate { max_output_tokens: None, input_usd: None, output_usd: None, ..KNOWN };
    for seed in 0..20 {
        let (_, cost, most) = played(&mut machine("visits: 99", "cost_usd: 9"), seed, unknown, true);
        #[expect(clippy::cast_precision_loss, reason = "small numbers")]
        let dearest = most as f64 * 0.2;
        assert!(cost > 8.5 && cost <= 9.0 + dearest, "{cost} with {most} calls in flight");
    }
}

/// The visits of a role with its own limit, in a thread of ten visits.
fn visits(of_role: &str, cost_usd: Option<f64>) -> Thread {
    let text = WORKFLOW.replace("LIMITS", of_role).replace("THREAD", "steps: 99");
    let mut thread = Thread::new(&text, script(&[]));
    thread.tokens_a_visit = 10;
    thread.cost_a_visit = cost_usd;
    thread.begin();
    thread.go(&mut |_| 0);
    thread
}

#[test]
fn the_limits_of_a_role_hold() {
    for (of_role, asked, what) in [
        ("tokens: 1", 1, "the role a reached its limit of 1 tokens"),
        ("tokens: 25", 3, "the role a reached its limit of 25 tokens"),
        ("cost_usd: 0.0001", 1, "the role a reached its limit of 0.0001 US dollars"),
        ("visits: 4", 4, "the role a reached its limit of 4 visits"),
    ] {
        let thread = visits(of_role, Some(0.5));
        assert_eq!(thread.asked.len(), asked, "{}", thread.text());
        assert_eq!(thread.end(), format!("failed ({what}) null"));
    }
    assert_eq!(visits("visits: 99", None).asked.len(), 10);
}

/// A refused call is routed by the role's `on_limit`, like any fault of that class.
#[test]
fn a_call_that_is_refused_is_routed_by_on_limit() {
    let text = WORKFLOW.replace("LIMITS", "tokens: 500").replace("THREAD", "steps: 99");
    let mut thread = Thread::new(&text, script(&[]));
    thread.begin();
    let role = name("a");
    let large = CallEstimate { prompt_bytes: 600, ..KNOWN };
    let fault = thread.machine.admit(&LanePath::trunk(), &role, &large).unwrap_err();
    assert_eq!(
        fault.message,
        "the next call could take the role a past its limit of 500 tokens: 0 are used or reserved, and it may take 650 more"
    );
    thread.script = std::sync::Arc::new(move |_| Reply::Faults(fault.clone()));
    thread.go(&mut |_| 0);
    assert_eq!(thread.step(1).step.status.as_str(), "limit");
    assert!(thread.end().starts_with("failed (the next call could take"), "{}", thread.end());
}
