use std::fmt::Write as _;

use rondo::agent_kit::prefix::tokens;
use rondo::author::prefix::{self, PrefixBreak, RoleSum, VisitPair, VisitPrefix};
use rondo::core::conversation::rebuild;
use rondo::protocol::diagnostic::Code;
use rondo::protocol::id::ThreadId;
use rondo::protocol::object::{Dollars, KnownCost, Usage};
use rondo::tell::{plural, word};
use rondo::views::lines::who;
use rondo::views::prefix::{AgainstLine, role_line, strategy_line, visit_line};

use super::find_thread::{find_thread, find_thread_in};
use super::settings_files::settings;
use super::spending::cost_cell;
use super::store_access::existing_store_at;
use super::{Exit, Failure, Output, PlaceArgs, json};

/// How many broken prefixes are listed below the table; `--json` has them all.
const SHOWN_BROKEN: usize = 20;

const BAR_COLUMNS: u8 = 10;

/// Columns for a role's name and lane, without lanes and with.
const NAME_COLUMNS: usize = 15;
const LANE_COLUMNS: usize = 24;

/// Show what each visit shares with the one before, and where and at what cost a prefix broke
#[derive(Debug, clap::Args)]
#[command(arg = json())]
pub struct PrefixArgs {
    /// A thread's id, a prefix of one, or `last`
    #[arg(default_value = "last")]
    thread: String,
    /// Compare each visit with the same visit of that thread, such as a run of the workflow before an edit
    #[arg(long, value_name = "THREAD")]
    against: Option<String>,
    /// With --json, also print the totals of each role and the cost of each history
    #[arg(long)]
    histories: bool,
    #[command(flatten)]
    store: PlaceArgs,
}

pub fn prefix(args: &PrefixArgs, output: &mut Output) -> Result<Exit, Failure> {
    let settings = settings(&args.store.copied()?.flags())?;
    let (view, id, row) = find_thread_in(existing_store_at(&settings.store.value)?, &args.thread)?;
    let store = view.store.as_ref();
    let workflow = rebuild::beginning(store, &row)?.workflow;
    let prices = prefix::prices(&workflow, &|model| settings.stated_price(model));
    let mut report = Report {
        output,
        against: None,
        has_histories: args.histories,
        columns: if workflow.has_fan_outs() { LANE_COLUMNS } else { NAME_COLUMNS },
        broken: Vec::new(),
        left_out: 0,
        visits: 0,
        outcome: Ok(()),
    };
    let Some(other) = &args.against else {
        report.output.aside(&format!("{id}  {}\n", workflow.name))?;
        let sums = prefix::visits(store, &id, &row, &prices, &mut |visit| report.visit(&visit, true));
        return report.end(&sums?);
    };
    let (other, other_row) = find_thread(store, other)?;
    report.against = Some(&other);
    report.output.aside(&format!("{id}  {}  against {other}\n", workflow.name))?;
    let mut has_met = false;
    prefix::against(store, (&id, &row), (&other, &other_row), &prices, &mut |VisitPair { visit, has_counterpart }| {
        has_met |= has_counterpart;
        report.visit(&visit, has_counterpart)
    })?;
    let exit = report.end(&[])?;
    if has_met {
        return Ok(exit);
    }
    let message = format!("no visit of thread {id} is one of thread {other} too");
    Err(Failure::new(Code::NothingToCompare, message).with_hint("name two threads of one workflow"))
}

struct Report<'a> {
    output: &'a mut Output,
    against: Option<&'a ThreadId>,
    has_histories: bool,
    columns: usize,
    broken: Vec<String>,
    left_out: u64,
    visits: u64,
    outcome: Result<(), Failure>,
}

impl Report<'_> {
    /// Prints what a visit shares. Returns whether the output is still open.
    fn visit(&mut self, visit: &VisitPrefix, has_visit: bool) -> bool {
        self.outcome = if self.output.is_json() {
            let against = self.against.map(|thread| AgainstLine { thread, has_visit });
            self.output.line(&visit_line(visit, against))
        } else {
            self.row(visit, has_visit)
        };
        self.visits += 1;
        self.outcome.is_ok() && !self.output.is_closed()
    }

    fn row(&mut self, visit: &VisitPrefix, has_visit: bool) -> Result<(), Failure> {
        if let Some(broke) = &visit.broke {
            if self.broken.len() < SHOWN_BROKEN {
                self.broken.push(broke_text(visit, broke));
            } else {
                self.left_out += 1;
            }
        }
        let heading = if self.visits == 0 { heading(self.columns) } else { String::new() };
        self.output.text(&(heading + &row_text(visit, has_visit, self.columns)))
    }

    fn end(self, sums: &[RoleSum]) -> Result<Exit, Failure> {
        self.outcome?;
        if self.output.is_json() {
            for sum in sums.iter().filter(|_| self.has_histories) {
                self.output.line(&role_line(sum))?;
                sum.costs.iter().try_for_each(|cost| self.output.line(&strategy_line(sum, cost)))?;
            }
            return Ok(Exit::Done);
        }
        if self.visits == 0 {
            self.output.text("no model was asked in this thread\n")?;
        }
        if !self.broken.is_empty() {
            self.output.text("\nbroken prefixes\n")?;
            self.broken.iter().try_for_each(|text| self.output.text(text))?;
        }
        if self.left_out > 0 {
            self.output.text(&format!("  and {} more; --json has them all\n", self.left_out))?;
        }
        if !sums.is_empty() {
            self.output.text("\nwhat each history would cost (* is chosen; a token is taken for 4 bytes)\n")?;
            sums.iter().try_for_each(|sum| self.output.text(&sum_text(sum)))?;
        }
        Ok(Exit::Done)
    }
}

fn heading(columns: usize) -> String {
    format!(
        "\n{:<columns$} {:>5} {:>10}  {:<15} {:>8} {:>8} {:>9}\n",
        "role", "visit", "bytes", "shared", "prompt", "served", "cost"
    )
}

fn row_text(visit: &VisitPrefix, has_visit: bool, columns: usize) -> String {
    let name = cut(&who(&visit.role, &visit.lane), columns);
    let bytes = visit.shared.request_bytes;
    let share = match (visit.shared.share(), has_visit) {
        (_, false) => "not there".to_owned(),
        (Some(share), true) => bar(share),
        (None, true) => "not asked".to_owned(),
    };
    let counted = |of: fn(Usage) -> u64| visit.usage.map_or_else(|| "-".to_owned(), |usage| of(usage).to_string());
    let (prompt, served) = (counted(|usage| usage.prompt_tokens), counted(|usage| usage.cached_tokens));
    let broken = if visit.broke.is_some() { "  !" } else { "" };
    let (visit, cost) = (visit.visit, cost_cell(visit.cost));
    format!("{name:<columns$} {visit:>5} {bytes:>10}  {share:<15} {prompt:>8} {served:>8} {cost:>9}{broken}\n")
}

/// A share as a bar and a percentage: `███████···  70%`.
fn bar(share: f64) -> String {
    // A column is filled from its middle on.
    let bar = (0..BAR_COLUMNS).map(|column| if share * 100.0 >= (f64::from(column) + 0.5) * 10.0 { '█' } else { '·' });
    format!("{} {:>3.0}%", bar.collect::<String>(), (share * 100.0).floor())
}

fn broke_text(visit: &VisitPrefix, broke: &PrefixBreak) -> String {
    let (at, who) = (&broke.at, who(&visit.role, &visit.lane));
    let mut text = format!("  {who}, visit {}: {}, byte {}: {}\n", visit.visit, at.block, at.byte, at.cause);
    if !at.detail.is_empty() {
        let _ = writeln!(text, "      {}", at.detail);
    }
    if broke.lost_tokens > 0 {
        let cost = broke.lost_usd.map_or_else(String::new, |lost| format!(", {} more", Dollars(lost)));
        let _ = writeln!(text, "      about {} tokens could not be served{cost}", broke.lost_tokens);
    }
    text
}

fn sum_text(sum: &RoleSum) -> String {
    let (visits, requests) = (plural(sum.visits, "visit"), plural(sum.shared.requests, "request"));
    let broken = if sum.breaks > 0 { format!(", {} broken", sum.breaks) } else { String::new() };
    let mut text = format!("  {}: {visits}, {requests}{broken}\n", sum.role);
    for cost in &sum.costs {
        let name = word(&cost.history);
        let mark = if cost.history == sum.history { "*" } else { " " };
        let (sent, served) = (tokens(cost.shared.request_bytes), tokens(cost.shared.shared_bytes));
        let share = bar(cost.shared.share().unwrap_or_default());
        let cost = cost_cell(KnownCost::new(cost.cost_usd, 0));
        let _ = writeln!(text, "    {mark} {name:<10} {sent:>9} tokens, {served:>9} served  {share} {cost:>10}");
    }
    text
}

/// The end of a name that fits its column: the end of a lane path is most informative.
fn cut(name: &str, columns: usize) -> String {
    let count = name.chars().count();
    if count <= columns {
        return name.to_owned();
    }
    ['…'].into_iter().chain(name.chars().skip(count + 1 - columns)).collect()
}
