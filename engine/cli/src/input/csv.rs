//! What CSV files of inputs look like: which character separates their values, whether a quote is left open, and on which
//! line of the file a row begins.

use std::cmp::Reverse;

/// What may separate values. Spreadsheets write semicolons where the comma stands in numbers.
const SEPARATORS: [u8; 3] = [b',', b';', b'\t'];

/// Reads rows whose names are trimmed and that may be shorter than the first.
pub fn reader(text: &str, separator: u8) -> csv::Reader<&[u8]> {
    let mut builder = csv::ReaderBuilder::new();
    builder.delimiter(separator).flexible(true).trim(csv::Trim::Headers).from_reader(text.as_bytes())
}

/// The separator with which the first line has the most known names.
pub fn separator(text: &str, is_known: impl Fn(&str) -> bool) -> u8 {
    let known = |separator: &u8| {
        let names = reader(text, *separator).headers().cloned().unwrap_or_default();
        Reverse(names.iter().filter(|name| is_known(name)).count())
    };
    SEPARATORS.into_iter().min_by_key(known).unwrap_or(b',')
}

/// The byte of a quote that begins a value and is not closed: the reader would take all that follows as one value.
pub fn unclosed_quote(text: &str, separator: u8) -> Option<usize> {
    let (mut begins_value, mut is_open, mut quote) = (true, false, None);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'"' if is_open => is_open = false,
            b'"' if begins_value => (is_open, quote) = (true, Some(at)),
            // The second of two quotes, which stand for one.
            b'"' => is_open = quote.is_some(),
            _ if is_open => {}
            _ => quote = None,
        }
        begins_value = !is_open && (byte == separator || byte == b'\n' || byte == b'\r');
    }
    quote.filter(|_| is_open)
}

/// A name that stands in the first line for the second time, and its byte. No name has a separator in it.
pub fn named_again<'n>(text: &str, separator: u8, names: &'n [String]) -> Option<(&'n str, usize)> {
    let is_again = |(column, name): &(usize, &String)| names.iter().take(*column).any(|before| before == *name);
    let (column, name) = names.iter().enumerate().find(is_again)?;
    let first = text.trim_start_matches(['\r', '\n']);
    let before: usize = first.split(char::from(separator)).take(column).map(|cell| cell.len() + 1).sum();
    Some((name, text.len() - first.len() + before))
}

/// Where rows begin in their file. They are asked for in the order of the file.
pub struct Place<'a> {
    text: &'a str,
    at: usize,
    line: u32,
}

impl<'a> Place<'a> {
    pub fn new(text: &'a str) -> Self {
        Self { text, at: 0, line: 1 }
    }

    /// The line, from 1, and the byte of the row that the reader found from byte `from` on: it counts the end of the line
    /// before, and empty lines, as a part of the row.
    pub fn of_row(&mut self, from: u64) -> (u32, usize) {
        let from = usize::try_from(from).unwrap_or(usize::MAX).min(self.text.len());
        let rest = self.text.get(from..).unwrap_or_default();
        let begin = self.text.len() - rest.trim_start_matches(['\r', '\n']).len();
        let passed = self.text.get(self.at..begin).unwrap_or_default();
        let ends = passed.matches('\n').count() + passed.matches('\r').count() - passed.matches("\r\n").count();
        self.line = self.line.saturating_add(u32::try_from(ends).unwrap_or(u32::MAX));
        self.at = begin;
        (self.line, begin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines on which rows begin.
    fn lines(text: &str) -> Vec<u32> {
        let mut place = Place::new(text);
        let rows = reader(text, b',').into_records();
        rows.map(|row| place.of_row(row.unwrap().position().unwrap().byte()).0).collect()
    }

    #[test]
    fn rows_have_the_number_of_their_line_in_the_file() {
        for end in ["\n", "\r\n", "\r"] {
            let text = ["a", "1", "", "", "2", "\"3", "4\"", "5"].join(end);
            assert_eq!(lines(&text), [2, 5, 6, 8], "{end:?}");
            assert_eq!(lines(&format!("{end}{text}{end}{end}")), [3, 6, 7, 9], "{end:?}");
        }
    }

    #[test]
    fn a_quote_is_open_where_the_reader_takes_all_that_follows() {
        for (text, open) in [
            ("a\n\"b", Some(2)),
            ("a\nx,\"b\"\"\nc\n", Some(4)),
            ("a\n\"b\"\n\"", Some(6)),
            ("a\n\"b\"\"\"\nc\n", None),
            ("a\n\"b\nc\"\n", None),
            ("a\n5\" pipe\n\"5\"\" b\"c\n", None),
            ("", None),
        ] {
            assert_eq!(unclosed_quote(text, b','), open, "{text:?}");
        }
    }

    #[test]
    fn a_name_that_stands_twice_is_found_where_it_stands_again() {
        let again = |text: &str| {
            let names = reader(text, b';').headers().unwrap().iter().map(str::to_owned).collect::<Vec<_>>();
            named_again(text, b';', &names).map(|(name, at)| (name.to_owned(), at))
        };
        assert_eq!(again("\r\n\"é\";b;é\n1;2;3\n"), Some(("é".to_owned(), 9)));
        assert_eq!(again("a;b\na;a\n"), None);
    }

    #[test]
    fn values_are_separated_by_what_gives_known_names() {
        let is_known = |name: &str| ["topic", "words"].contains(&name);
        assert_eq!(separator("topic;words\n", is_known), b';');
        assert_eq!(separator("topic\twords\n", is_known), b'\t');
        assert_eq!(separator("topic;wrong\n", is_known), b';');
        assert_eq!(separator("topic,words\n", is_known), b',');
        assert_eq!(separator("wrong\n", is_known), b',');
    }
}
