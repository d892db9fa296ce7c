//! What came of all trials: a table by workflow and operator, and by name whatever was not caught or not named.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use crate::trial::{Trial, Went};

/// The trials and their figures.
pub struct Figures {
    trials: Vec<Trial>,
}

/// How many mutants of one kind went which way.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    made: usize,
    refused: usize,
    caught: usize,
    named: usize,
}

impl Counts {
    fn add(&mut self, went: &Went) {
        self.made += 1;
        match went {
            Went::Refused => self.refused += 1,
            Went::Survived => {}
            Went::Named => {
                self.caught += 1;
                self.named += 1;
            }
            Went::Misnamed(_) => self.caught += 1,
        }
    }

    /// Of those that still check.
    fn caught_percent(self) -> usize {
        percent(self.caught, self.made - self.refused)
    }

    /// Of those that were caught.
    fn named_percent(self) -> usize {
        percent(self.named, self.caught)
    }
}

/// Rounded down; all of none is 100.
fn percent(part: usize, whole: usize) -> usize {
    (part * 100).checked_div(whole).unwrap_or(100)
}

impl Figures {
    /// The figures of these trials.
    pub fn of(trials: Vec<Trial>) -> Self {
        Self { trials }
    }

    fn all(&self) -> Counts {
        let mut counts = Counts::default();
        for trial in &self.trials {
            counts.add(&trial.went);
        }
        counts
    }

    /// How many there are.
    pub fn total(&self) -> usize {
        self.trials.len()
    }

    /// Of a hundred that still check, how many are caught.
    pub fn caught_percent(&self) -> usize {
        self.all().caught_percent()
    }

    /// Of a hundred that are caught, how many are named right.
    pub fn named_percent(&self) -> usize {
        self.all().named_percent()
    }

    /// Every trial, a line each.
    pub fn every(&self) -> String {
        let mut text = String::new();
        for Trial { workflow, operator, place, what, went } in &self.trials {
            let went = match went {
                Went::Refused => "refused",
                Went::Survived => "survived",
                Went::Named => "named",
                Went::Misnamed(_) => "misnamed",
            };
            writeln!(text, "{went:<8} {workflow}: {operator} at {place} ({what})").unwrap();
        }
        text
    }

    /// The table, then by name what survived and what was named wrongly.
    pub fn shown(&self, title: &str) -> String {
        let mut rows: BTreeMap<(&str, &str), Counts> = BTreeMap::new();
        for trial in &self.trials {
            rows.entry((&trial.workflow, &trial.operator)).or_default().add(&trial.went);
        }
        let mut text = format!(
            "{title}\n{:<18} {:<24} {:>5} {:>8} {:>7} {:>6}\n",
            "workflow", "operator", "made", "refused", "caught", "named"
        );
        let mut row = |(workflow, operator): (&str, &str), counts: Counts| {
            let Counts { made, refused, caught, named } = counts;
            writeln!(text, "{workflow:<18} {operator:<24} {made:>5} {refused:>8} {caught:>7} {named:>6}").unwrap();
        };
        for (name, counts) in rows {
            row(name, counts);
        }
        let all = self.all();
        row(("all", ""), all);
        writeln!(
            text,
            "{}% of the {} that still check are caught, {}% of these are named right; {} are refused by validate",
            all.caught_percent(),
            all.made - all.refused,
            all.named_percent(),
            all.refused
        )
        .unwrap();
        self.listed(&mut text, "survived", |went| (*went == Went::Survived).then(String::new));
        self.listed(&mut text, "named wrongly", |went| match went {
            Went::Misnamed(said) => Some(said.clone()),
            _ => None,
        });
        text
    }

    fn listed(&self, text: &mut String, title: &str, of: impl Fn(&Went) -> Option<String>) {
        let listed: Vec<(&Trial, String)> =
            self.trials.iter().filter_map(|trial| Some((trial, of(&trial.went)?))).collect();
        writeln!(text, "{title}: {}", listed.len()).unwrap();
        for (Trial { workflow, operator, place, what, .. }, said) in listed {
            writeln!(text, "  {workflow}: {operator} at {place} ({what})").unwrap();
            if !said.is_empty() {
                writeln!(text, "    said: {said}").unwrap();
            }
        }
    }
}

/// Keeps the report beside what the build made.
pub fn keep(report: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let file = folder.join("mutants.txt");
    std::fs::create_dir_all(folder).unwrap();
    std::fs::write(&file, report).unwrap();
    file
}
