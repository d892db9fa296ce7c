//! Flowcharts of Mermaid.

use std::fmt::Write as _;

use super::{Line, Picture, Shape};

pub(super) fn text(picture: &Picture) -> String {
    let mut text = String::from("flowchart TD\n");
    write_within(&mut text, picture, None, 1);
    for line in &picture.lines {
        write_line(&mut text, line);
    }
    text
}

fn write_within(text: &mut String, picture: &Picture, frame: Option<&str>, depth: usize) {
    let indent = "  ".repeat(depth);
    let (frames, shapes) = picture.within(frame);
    for shape in shapes {
        text.push_str(&indent);
        write_shape(text, shape);
    }
    for frame in frames {
        let _ = writeln!(text, "{indent}subgraph f_{} [\"{}\"]", id(&frame.id), escape(&frame.label));
        write_within(text, picture, Some(&frame.id), depth + 1);
        let _ = writeln!(text, "{indent}end");
    }
}

fn write_shape(text: &mut String, shape: &Shape) {
    let (open, close) = match shape.kind {
        "start" | "end" | "fail" => ("([", "])"),
        "hook" => ("{{", "}}"),
        "port" => ("[(", ")]"),
        _ => ("[", "]"),
    };
    // `end` is a keyword of Mermaid, so every id has a prefix.
    let _ = write!(text, "n_{}{open}\"{}", id(&shape.id), escape(&shape.label));
    for below in shape.below() {
        let _ = write!(text, "<br/>{}", escape(&below));
    }
    let _ = writeln!(text, "\"{close}");
}

fn write_line(text: &mut String, line: &Line) {
    let arrow = match line.kind {
        "call" | "child" => "-.->",
        _ if line.ends_lane => "==>",
        _ => "-->",
    };
    let (from, to) = (id(&line.from), id(&line.to));
    if line.label.is_empty() {
        let _ = writeln!(text, "  n_{from} {arrow} n_{to}");
    } else {
        let _ = writeln!(text, "  n_{from} {arrow}|\"{}\"| n_{to}", escape(&line.label));
    }
}

fn id(id: &str) -> String {
    id.replace([':', '/'], "_")
}

/// Escapes a label for Mermaid quotes: whatever could end the label, or start a directive (`%%{`), markup or a link,
/// becomes an entity (<https://mermaid.js.org/syntax/flowchart.html#entity-codes-to-escape-characters>).
fn escape(label: &str) -> String {
    let mut escaped = String::with_capacity(label.len());
    for c in label.chars() {
        match c {
            '"' | '<' | '>' | '#' | '&' | '%' | '{' | '}' | '`' | '\\' | ';' => {
                let _ = write!(escaped, "#{};", u32::from(c));
            }
            '\n' | '\t' => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}
