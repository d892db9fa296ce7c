//! Tables for terminals: columns that fit a width. No line wraps; what matters least is left out first.

/// The fewest characters of a column that is made narrower.
const MIN_CHARS: usize = 8;

/// The most characters of a column that may be made narrower.
const MAX_CHARS: usize = 40;

/// The blanks between columns.
const GAP: usize = 2;

/// A column. Without any text in its cells it is left out.
#[derive(Debug, Clone)]
pub struct Column {
    title: &'static str,
    cells: Vec<String>,
    /// Those with the highest rank are left out first; those of rank 0 stay.
    rank: u8,
    is_right: bool,
    shrinks: bool,
    /// The characters of each cell that suffice.
    enough: Option<usize>,
    width: usize,
}

impl Column {
    /// A column that stays as it is.
    pub fn new(title: &'static str, cells: Vec<String>) -> Self {
        let chars = cells.iter().map(|cell| cell.chars().count()).max().unwrap_or(0);
        let width = if chars == 0 { 0 } else { chars.max(title.len()) };
        Self { title, cells, rank: 0, is_right: false, shrinks: false, enough: None, width }
    }

    /// Left out before those of a lower rank.
    pub fn rank(self, rank: u8) -> Self {
        Self { rank, ..self }
    }

    /// Set flush right.
    pub fn right(self) -> Self {
        Self { is_right: true, ..self }
    }

    /// Its cells may end in `…`.
    pub fn shrink(self) -> Self {
        Self { shrinks: true, width: self.width.min(MAX_CHARS), ..self }
    }

    /// Its cells may be cut to their first characters.
    pub fn cut_to(self, chars: usize) -> Self {
        Self { enough: Some(chars), ..self }
    }

    fn cell(&self, row: usize) -> String {
        let text = self.cells.get(row).map_or("", String::as_str);
        if text.chars().count() <= self.width {
            return text.to_owned();
        }
        if self.enough.is_some() {
            return text.chars().take(self.width).collect();
        }
        let mut cut: String = text.chars().take(self.width.saturating_sub(1)).collect();
        cut.push('…');
        cut
    }
}

/// The columns as text, at most `width` characters wide.
pub fn table(mut columns: Vec<Column>, width: usize) -> String {
    columns.retain(|column| column.width > 0);
    fit(&mut columns, width);
    let rows = columns.first().map_or(0, |column| column.cells.len());
    let titles: Vec<_> = columns.iter().map(|column| column.title.to_owned()).collect();
    let mut text = line(&columns, titles);
    for row in 0..rows {
        text.push_str(&line(&columns, columns.iter().map(|column| column.cell(row)).collect()));
    }
    text
}

/// Makes columns narrower, and leaves out those that matter least, until all fit.
fn fit(columns: &mut Vec<Column>, width: usize) {
    let excess = |columns: &[Column]| {
        let all: usize = columns.iter().map(|column| column.width + GAP).sum();
        all.saturating_sub(GAP).saturating_sub(width)
    };
    if excess(columns) > 0 {
        for column in columns.iter_mut() {
            column.width = column.enough.map_or(column.width, |chars| column.width.min(chars.max(column.title.len())));
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

fn line(columns: &[Column], cells: Vec<String>) -> String {
    let padded: Vec<String> = columns
        .iter()
        .zip(cells)
        .map(|(Column { width, is_right, .. }, cell)| match is_right {
            true => format!("{cell:>width$}"),
            false => format!("{cell:<width$}"),
        })
        .collect();
    format!("{}\n", padded.join(&" ".repeat(GAP)).trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns() -> Vec<Column> {
        let of = |title, cells: [&str; 2]| Column::new(title, cells.map(str::to_owned).to_vec());
        vec![
            of("THREAD", ["01k9aaaaaaaaaaaaaaaaaaaaaa", "01k9bbbbbbbbbbbbbbbbbbbbbb"]).cut_to(10),
            of("NAME", ["", "the tide pools of the north"]).rank(2).shrink(),
            of("WORKFLOW", ["review-loop", "summarize-document"]).rank(3).shrink(),
            of("STATUS", ["stopped", "cancelled"]),
            of("STEPS", ["7", "12345"]).rank(4).right(),
            of("AGE", ["5s", "120d"]).rank(1).right(),
            of("TAGS", ["", ""]).rank(5).shrink(),
        ]
    }

    #[test]
    fn a_table_fits_every_width_and_keeps_what_matters_most() {
        for width in 40..=160 {
            let text = table(columns(), width);
            assert!(text.lines().all(|line| line.chars().count() <= width), "{width}:\n{text}");
            assert!(text.contains("01k9aaaaaa") && text.contains("stopped") && text.contains("AGE"), "{text}");
        }
        let pages = [160, 80, 60, 40].map(|width| format!("{width}\n{}", table(columns(), width)));
        insta::assert_snapshot!(pages.join("\n"));
    }
}
