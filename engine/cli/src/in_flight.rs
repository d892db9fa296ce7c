//! Visits whose step is not committed, in words for people.

use std::fmt::Write as _;

use rondo::core::local::{CallInFlight, ModelInFlight, ToolInFlight, VisitInFlight};
use rondo::core::shown_call::arguments;
use rondo::tell::plural;
use rondo::views::in_flight::{InFlightTotals, VisitLine};
use rondo::views::lines::who;
use rondo::views::spending::Spending;

use super::show::{beginning, block, seconds};
use super::spending::spending_text;
use super::{Failure, Output};

/// The calls, such as `3 calls, 1 refused`, and after two blanks each what they used.
pub fn totals_text(totals: &InFlightTotals) -> String {
    calls_text(totals) + &spending_text(&Spending { usage: totals.usage, cost: totals.cost })
}

/// The same in one column of a table, whose cells may lose their ends.
pub fn totals_cell(totals: &InFlightTotals) -> String {
    let cost = totals.cost.usd().map_or_else(String::new, |_| format!("{}, ", totals.cost));
    cost + &calls_text(totals)
}

fn calls_text(totals: &InFlightTotals) -> String {
    let mut words = vec![plural(totals.model_calls, "call")];
    words.extend((totals.refused > 0).then(|| format!("{} refused", totals.refused)));
    words.extend((totals.tool_calls > 0).then(|| plural(totals.tool_calls, "tool call")));
    words.join(", ")
}

pub fn show<'a>(mut visits: impl Iterator<Item = &'a VisitInFlight>, output: &mut Output) -> Result<(), Failure> {
    visits.try_for_each(|visit| {
        let line = VisitLine::of(visit);
        output.show(&line, || visit_text(visit, line.totals.as_ref()))
    })
}

fn visit_text(visit: &VisitInFlight, totals: Option<&InFlightTotals>) -> String {
    let VisitInFlight { role, visit: number, lane, child, calls } = visit;
    let who = match role {
        Some(role) => who(role, lane),
        None if lane.is_trunk() => "a step".to_owned(),
        None => lane.to_string(),
    };
    let number = number.map_or_else(String::new, |number| format!(", visit {number}"));
    let figures = totals.map_or_else(String::new, |totals| format!(", {}", totals_text(totals)));
    let mut text = format!("\n  -. {who}{number}: not committed{figures}\n");
    if let Some(child) = child {
        let _ = writeln!(text, "     thread {child}");
    }
    for call in calls {
        match call {
            CallInFlight::Model(model) => model_text(&mut text, model),
            CallInFlight::Tool(tool) => tool_text(&mut text, tool),
        }
    }
    text
}

fn model_text(text: &mut String, model: &ModelInFlight) {
    let spent = spending_text(&Spending::of_call(model.usage, model.cost_usd));
    let refused = match (&model.refused, model.given_up) {
        (None, _) => "",
        (Some(_), false) => " refused",
        (Some(_), true) => " refused, and the run stopped",
    };
    let _ = writeln!(text, "     answer{refused}{spent}");
    block(text, "", &beginning(&model.reply.parts.text()));
    for tool in model.reply.parts.tool_calls() {
        block(text, &format!("asks for {}", tool.name), &arguments(&tool.arguments));
    }
    match &model.repair {
        Some(repair) => block(text, "repair >", repair),
        None => block(text, "because", model.refused.as_deref().unwrap_or_default()),
    }
}

fn tool_text(text: &mut String, tool: &ToolInFlight) {
    let ToolInFlight { name, text: output, failed, duration_ms, .. } = tool;
    let name = name.as_deref().unwrap_or("call");
    let Some(output) = output else {
        let _ = writeln!(text, "     tool {name}: whether it had its effect is not known");
        return;
    };
    let mark = if *failed { ", failed" } else { "" };
    let lasted = duration_ms.map_or_else(String::new, |lasted| format!(", {}", seconds(lasted)));
    block(text, &format!("tool {name}{mark}{lasted} >"), &beginning(output));
}
