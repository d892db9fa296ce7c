//! What a batch shows: results on stdout, one line of progress and a closing table on stderr.

use std::collections::BTreeMap;
use std::fs::File;
use std::iter::Peekable;
use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use rondo::protocol::event::{Event, EventLine, Outcome, What};
use rondo::protocol::id::BatchId;
use rondo::store::StepStore;
use rondo::tell::{plural, tell};
use rondo::views::spending::Spending;
use serde::Serialize;

use super::super::named_command::{completed, hinted};
use super::super::progress::spinner;
use super::super::result::View;
use super::super::runner::{Show, Update};
use super::super::spending::cost_text;
use super::super::stored_batch::{Batch, Line, Options};
use super::ends::{End, LineError, LineResult, Tally};
use super::lines::{Numbers, numbers};

use crate::{EventOf, Exit, Failure, Output, Style, json_line, now_ms, output_file};

pub(super) const TICK: Duration = Duration::from_millis(200);

#[derive(Debug, Serialize)]
struct OfLine<'a> {
    #[serde(flatten)]
    event: EventLine<'a>,
    line: u32,
}

pub(super) struct Display<'a> {
    id: BatchId,
    lines: u32,
    options: Options,
    store: Arc<dyn StepStore>,
    output: &'a mut Output,
    /// Where results go, if not to stdout.
    file: Option<Output>,
    is_quiet: bool,
    /// Whether a script or a recording answers, which costs nothing.
    is_replay: bool,
    bar: ProgressBar,
    since: Instant,
    /// The lines whose results are still to be written, in order.
    upcoming: Peekable<Numbers>,
    /// Lines that have ended before an earlier one has.
    ends: BTreeMap<u32, End>,
    /// By line that runs: the last fault of its thread.
    running: BTreeMap<u32, Option<LineError>>,
    finished: BTreeMap<u32, Outcome>,
    tally: Tally,
    spent: Spending,
}

/// Tokens and money of the calls of this process, in words; free calls are those of a script.
fn spent_words(spent: Spending, is_free: bool) -> Option<String> {
    let usage = spent.usage?;
    let tokens = usage.prompt_tokens.saturating_add(usage.output_tokens);
    let cost = cost_text(spent.cost).or_else(|| (!is_free).then(|| "price unknown".to_owned()));
    let cost = cost.map_or_else(String::new, |cost| format!(", {cost}"));
    (tokens > 0).then(|| format!("{tokens} tokens{cost}"))
}

impl<'a> Display<'a> {
    pub(super) fn new(
        id: &BatchId,
        batch: &Batch,
        (store, is_replay): (Arc<dyn StepStore>, bool),
        (view, output): (&View, &'a mut Output),
    ) -> Result<Self, Failure> {
        let file = view.output.as_deref().map(|path| {
            File::create(path).map(|file| Output::to(Box::new(file), true)).map_err(output_file::failed(path))
        });
        let is_shown = Style::stderr().is_terminal && !view.quiet;
        let bar = if is_shown { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
        Ok(Self {
            id: id.clone(),
            lines: batch.lines,
            options: batch.options,
            upcoming: numbers(Arc::clone(&store), id.clone()).peekable(),
            store,
            output,
            file: file.transpose()?,
            is_quiet: view.quiet,
            is_replay,
            bar: bar.with_style(spinner("{spinner} {wide_msg}")),
            since: Instant::now(),
            ends: BTreeMap::new(),
            running: BTreeMap::new(),
            finished: BTreeMap::new(),
            tally: Tally::default(),
            spent: Spending::default(),
        })
    }

    pub(super) fn started(&mut self) -> Result<(), Failure> {
        if self.output.is_json() {
            return self.output.line(&json_line!(
                "batch_started",
                id: (),
                thread: (),
                parent: (),
                durability: self.store.durability(),
                at_ms: now_ms(),
                line: (),
                batch: &self.id,
                lines: self.lines,
            ));
        }
        if !self.is_quiet {
            tell(&format!("batch {}  {}\n", self.id, plural(self.lines.into(), "line")));
        }
        Ok(())
    }

    fn event(&mut self, line: u32, event: &Event) {
        let is_root = event.parent.is_none();
        let fault = self.running.entry(line).or_default();
        match &event.what {
            What::Error { code, message, .. } if is_root => {
                *fault = Some(LineError { code: code.clone(), message: message.clone() });
            }
            What::ThreadFinished { outcome, .. } if is_root => {
                self.finished.insert(line, *outcome);
            }
            What::CallSettled { usage, cost_usd, .. } => {
                self.spent += Spending::of_call(*usage, *cost_usd);
            }
            _ => {}
        }
    }

    fn write(&mut self, line: u32, end: End) -> Result<(), Failure> {
        if self.options.is_unordered {
            let page = Line::page(&*self.store, &self.id, line, 1)?;
            return page.first().map_or(Ok(()), |stored| self.write_one(stored, &end));
        }
        self.ends.insert(line, end);
        while let Some(stored) =
            self.upcoming.next_if(|next| next.as_ref().map_or(true, |(number, _)| self.ends.contains_key(number)))
        {
            let stored = stored?;
            if let Some(end) = self.ends.remove(&stored.0) {
                self.write_one(&stored, &end)?;
            }
        }
        Ok(())
    }

    fn write_one(&mut self, (number, line): &(u32, Line), end: &End) -> Result<(), Failure> {
        let end = match (end, line) {
            (End::Stopped { exit, .. }, Line::Invalid { code, message }) => {
                let error = LineError { code: code.clone(), message: message.clone() };
                &End::Stopped { exit: *exit, error }
            }
            _ => end,
        };
        let read = LineResult::read(&*self.store, (*number, line), end)?;
        if let Some(cause) = read.cause() {
            self.tally.count_cause(*number, cause);
        }
        let Self { bar, output, file, .. } = self;
        bar.suspend(|| {
            if output.is_json() {
                output.line(&EventOf { event: "line", of: &read })?;
            }
            match file {
                Some(file) => file.line(&read),
                None if output.is_json() => Ok(()),
                None => output.line(&read),
            }
        })
    }

    /// The time left if the other lines take as long as those that have ended.
    fn left(&self) -> Option<Duration> {
        let ended = self.tally.ended();
        let rest = self.lines.saturating_sub(ended);
        (ended > 0 && rest > 0).then(|| self.since.elapsed().mul_f64(f64::from(rest) / f64::from(ended)))
    }

    /// Shows the closing table; returns the exit.
    pub(super) fn finish(self) -> Exit {
        let exit = self.tally.exit(self.lines);
        self.bar.finish_and_clear();
        if self.is_quiet || self.output.is_json() {
            return exit;
        }
        let unbegun = self.lines.saturating_sub(self.tally.ended());
        let mut words = vec![format!("{} done", self.tally.done)];
        words.extend(self.tally.others());
        words.extend((unbegun > 0).then(|| format!("{unbegun} not begun")));
        words.extend(spent_words(self.spent, self.is_replay));
        let total = plural(self.lines.into(), "line");
        tell(&format!("{total} in {}: {}\n{}", words_of(self.since.elapsed()), words.join(", "), self.tally.table()));
        if unbegun > 0 || self.tally.stopped > 0 {
            tell(&completed(&format!("`rondo resume --batch {}` continues with what has not ended\n", self.id)));
        }
        exit
    }
}

impl Show for Display<'_> {
    fn update(&mut self, line: u32, update: Update) -> Result<bool, Failure> {
        match update {
            Update::Event(event) => {
                self.event(line, &event);
                if self.output.is_json() {
                    self.output.line(&OfLine { event: event.line(hinted), line })?;
                }
                Ok(true)
            }
            Update::Said(said) => self.output.said(&said).map(|()| true),
            Update::Ended(outcome) => {
                let fault = self.running.remove(&line).flatten();
                let end = match (outcome, self.finished.remove(&line)) {
                    (Ok(_), Some(outcome)) => End::Ended(outcome),
                    (Ok(exit), None) => End::Stopped { exit, error: fault.unwrap_or_else(|| no_fault(exit)) },
                    // What holds for the whole batch is not the fault of a line.
                    (Err(failure), _) if line == 0 => return Err(failure),
                    (Err(failure), _) => End::Stopped { exit: failure.exit(), error: told(&failure) },
                };
                let goes_on = !self.options.fails_fast || end == End::Ended(Outcome::Done);
                self.tally.add(line, &end);
                self.write(line, end)?;
                Ok(goes_on)
            }
        }
    }

    fn tick(&mut self) {
        let mut words = vec![format!("{} of {} done", self.tally.done, self.lines)];
        words.extend(self.tally.others());
        words.push(format!("{} running", self.running.len()));
        words.extend(spent_words(self.spent, self.is_replay));
        words.extend(self.left().map(|left| format!("{} left", words_of(left))));
        self.bar.set_message(words.join(", "));
        self.bar.tick();
    }
}

fn no_fault(exit: Exit) -> LineError {
    let (code, message) = match exit {
        Exit::Waiting => ("waiting", "it waits for a person; `rondo answer` answers it"),
        _ => ("stopped", "the run was stopped"),
    };
    LineError { code: code.to_owned(), message: completed(message).into_owned() }
}

fn told(failure: &Failure) -> LineError {
    match failure {
        Failure::Fault(fault) => LineError { code: fault.code.to_string(), message: fault.message.clone() },
        Failure::Diagnostics(faulty) => LineError {
            code: faulty.faults.first().map_or_else(String::new, |fault| fault.code.to_string()),
            message: failure.to_string(),
        },
    }
}

/// A duration for people: `12s`, `3m 20s`, `2h 5m`.
fn words_of(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m {}s", seconds / 60, seconds % 60),
        _ => format!("{}h {}m", seconds / 3_600, seconds % 3_600 / 60),
    }
}
