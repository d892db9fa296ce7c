//! Tables for terminals: columns that fit a width. No line wraps; what matters least is left out first.

use std::borrow::Cow;

const MIN_CHARS: usize = 8;

const MAX_CHARS: usize = 40;

const GAP: usize = 2;

/// A column. Without any text in its cells it is left out.
#[derive(Debug, Clone)]
pub struct Column {
    title: Cow<'static, str>,
    place: usize,
    /// Those with the highest rank are left out first; those of rank 0 stay.
    rank: u8,
    is_right: bool,
    shrinks: bool,
    /// The characters of each cell that suffice.
    enough: Option<usize>,
    /// That of its widest cell, until it is made narrower.
    width: usize,
}

impl Column {
    pub fn new(title: impl Into<Cow<'static, str>>) -> Self {
        Self { title: title.into(), place: 0, rank: 0, is_right: false, shrinks: false, enough: None, width: 0 }
    }

    /// Left out before those of a lower rank.
    pub fn rank(self, rank: u8) -> Self {
        Self { rank, ..self }
    }

    pub fn right(self) -> Self {
        Self { is_right: true, ..self }
    }

    /// Its cells may end in `…`.
    pub fn shrink(self) -> Self {
        Self { shrinks: true, ..self }
    }

    /// Its cells may be cut to their first characters.
    pub fn cut_to(self, chars: usize) -> Self {
        Self { enough: Some(chars), ..self }
    }

    fn cell(&self, cells: &[String]) -> String {
        let text = cells.get(self.place).map_or("", String::as_str);
        if text.chars().count() <= self.width || self.enough.is_some() {
            return text.chars().take(self.width).collect();
        }
        text.chars().take(self.width.saturating_sub(1)).chain(['…']).collect()
    }
}

/// A table. Its lines are measured one by one, and then written one by one, so that it has none of them in memory.
#[derive(Debug, Clone)]
pub struct Table {
    columns: Vec<Column>,
}

impl Table {
    pub fn new(columns: impl IntoIterator<Item = Column>) -> Self {
        let columns = columns.into_iter().enumerate().map(|(place, column)| Column { place, ..column });
        Self { columns: columns.collect() }
    }

    pub fn measure(&mut self, cells: &[String]) {
        for (column, cell) in self.columns.iter_mut().zip(cells) {
            let most = if column.shrinks { MAX_CHARS } else { usize::MAX };
            column.width = column.width.max(cell.chars().count().min(most));
        }
    }

    /// Makes columns narrower, and leaves out those that matter least, until all fit `width`. Every line was measured.
    pub fn fit(&mut self, width: usize) {
        self.columns.retain(|column| column.width > 0);
        for column in &mut self.columns {
            column.width = column.width.max(column.title.len());
        }
        let columns = &mut self.columns;
        let excess = |columns: &[Column]| {
            let all: usize = columns.iter().map(|column| column.width + GAP).sum();
            all.saturating_sub(GAP).saturating_sub(width)
        };
        if excess(columns) > 0 {
            for column in columns.iter_mut() {
                column.width = column.width.min(column.enough.unwrap_or(usize::MAX).max(column.title.len()));
            }
        }
        loop {
            let excess = excess(columns);
            if excess == 0 {
                return;
            }
            let can_shrink = |column: &&mut Column| column.shrinks && column.width > MIN_CHARS;
            if let Some(widest) = columns.iter_mut().filter(can_shrink).max_by_key(|column| column.width) {
                widest.width = widest.width.saturating_sub(excess.min(4)).max(MIN_CHARS);
                continue;
            }
            let least = (0..columns.len()).max_by_key(|at| columns.get(*at).map_or(0, |column| column.rank));
            match least.filter(|at| columns.get(*at).is_some_and(|column| column.rank > 0)) {
                Some(at) => drop(columns.remove(at)),
                None => return,
            }
        }
    }

    pub fn text<Cells: AsRef<[String]>>(mut self, lines: &[Cells], width: usize) -> String {
        for cells in lines {
            self.measure(cells.as_ref());
        }
        self.fit(width);
        lines.iter().fold(self.titles(), |text, cells| text + &self.line(cells.as_ref()))
    }

    pub fn titles(&self) -> String {
        self.line_of(|column| column.title.to_string())
    }

    pub fn line(&self, cells: &[String]) -> String {
        self.line_of(|column| column.cell(cells))
    }

    fn line_of(&self, text: impl Fn(&Column) -> String) -> String {
        let padded = |column: &Column| {
            let (text, width) = (text(column), column.width);
            if column.is_right { format!("{text:>width$}") } else { format!("{text:<width$}") }
        };
        let padded: Vec<String> = self.columns.iter().map(padded).collect();
        format!("{}\n", padded.join(&" ".repeat(GAP)).trim_end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(width: usize) -> String {
        let table = Table::new([
            Column::new("THREAD").cut_to(10),
            Column::new("NAME").rank(2).shrink(),
            Column::new("WORKFLOW").rank(3).shrink(),
            Column::new("STATUS"),
            Column::new("STEPS").rank(4).right(),
            Column::new("AGE").rank(1).right(),
            Column::new("TAGS").rank(5).shrink(),
        ]);
        let lines = [
            ["01k9aaaaaaaaaaaaaaaaaaaaaa", "", "review-loop", "stopped", "7", "5s", ""],
            [
                "01k9bbbbbbbbbbbbbbbbbbbbbb",
                "the tide pools of the north",
                "summarize-document",
                "cancelled",
                "12345",
                "120d",
                "",
            ],
        ];
        table.text(&lines.map(|line| line.map(str::to_owned)), width)
    }

    #[test]
    fn a_table_fits_every_width_and_keeps_what_matters_most() {
        for width in 40..=160 {
            let text = table(width);
            assert!(text.lines().all(|line| line.chars().count() <= width), "{width}:\n{text}");
            assert!(text.contains("01k9aaaaaa") && text.contains("stopped") && text.contains("AGE"), "{text}");
        }
        let pages = [160, 80, 60, 40].map(|width| format!("{width}\n{}", table(width)));
        insta::assert_snapshot!(pages.join("\n"));
    }
}
