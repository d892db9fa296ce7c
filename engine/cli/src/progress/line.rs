//! A line for people in parts of different weight, which a terminal with colours shows by colour.

use rondo::tell::printable;

use crate::Style;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    Plain,
    Name,
    /// Figures and numbers, which are read last.
    Faint,
    Good,
    Bad,
    /// What went wrong and continues.
    Warning,
}

impl Tone {
    fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Name => "1",
            Self::Faint => "2",
            Self::Good => "1;32",
            Self::Bad => "1;31",
            Self::Warning => "33",
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Line(Vec<(Tone, String)>);

impl Line {
    pub fn of(text: impl Into<String>) -> Self {
        Self::default().and(Tone::Plain, text)
    }

    pub fn faint(text: impl Into<String>) -> Self {
        Self::default().and(Tone::Faint, text)
    }

    #[must_use]
    pub fn and(mut self, tone: Tone, text: impl Into<String>) -> Self {
        self.0.push((tone, text.into()));
        self
    }

    #[must_use]
    pub fn after(mut self, text: &str) -> Self {
        self.0.insert(0, (Tone::Faint, text.to_owned()));
        self
    }

    /// The text, with control characters replaced, and with colours if they are wanted.
    pub fn text(&self, style: Style) -> String {
        self.0.iter().map(|(tone, text)| style.paint(tone.code(), &printable(text)).into_owned()).collect()
    }
}
