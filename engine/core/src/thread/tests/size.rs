//! Measures the cost of a fan-out of many lanes.

use super::super::*;
use super::driver::*;

const EACH: &str = "rondo: 1
name: w
roles:
  plan: { system: S., context: none, output: { done: { items: \"string[]\" } } }
  a: { system: S., context: none }
  j: { system: S., context: none }
graph:
  start: { to: plan, prompt: go }
  plan: { done: { to: a, each: output.items, parallel: 64, prompt: '{{ item }}', join: { to: j, prompt: '{{ branches | length }}' } } }
  a: { done: { to: j } }
  j: { done: { to: end } }
";

/// The lookups of a fan-out with `lanes` lanes before its join, and the largest checkpoint and lane row.
fn measured(lanes: usize) -> (u64, usize, usize) {
    let items: Vec<String> = (0..lanes).map(|item| format!("item {item}")).collect();
    let reply = format!("done||{}", serde_json::json!({ "items": items }));
    let plan: &'static str = Box::leak(reply.into_boxed_str());
    let mut thread = Thread::new(EACH, script(&[("plan", plan), ("a", "done|a body that nobody has to keep")]));
    thread.begin();
    let (mut checkpoint, mut row) = (0, 0);
    while let Some(event) = thread.next(&mut |_| 0) {
        if thread.rows.steps.len() == lanes {
            break;
        }
        thread.happens(&event);
        checkpoint = checkpoint.max(thread.rows.checkpoint.len());
        row = row.max(thread.rows.lanes.values().next_back().map_or(0, |state| state.fold.len()));
        if let Some(fan) = thread.machine.trunk.lanes() {
            assert!(fan.open <= 64);
        }
    }
    (thread.recalled.get(), checkpoint, row)
}

#[test]
fn many_lanes_cost_as_much_each_as_a_few() {
    let (few, many) = (measured(100), measured(10_000));
    // For a lane without earlier rounds one step is looked up: the one that its prompt may read.
    assert!(few.0 <= 110 && many.0 <= 10_010, "{few:?} {many:?}");
    assert!(many.1 <= few.1 + 16 && many.2 <= few.2 + 16, "{few:?} {many:?}");
}

/// A lane holds counts and numbers, never a text.
#[test]
fn a_lane_is_small() {
    assert!(std::mem::size_of::<Lane>() <= 512, "{}", std::mem::size_of::<Lane>());
}
