//! The language of Graphviz.

use std::fmt::Write as _;

use super::Picture;

pub(super) fn text(picture: &Picture) -> String {
    let mut text = format!("digraph {} {{\n  node [shape=box];\n", quote(&picture.name));
    write_within(&mut text, picture, None, 1);
    for line in &picture.lines {
        let style = match line.kind {
            "call" | "child" => ", style=dashed",
            _ if line.ends_lane => ", style=bold",
            _ => "",
        };
        let (from, to) = (quote(&line.from), quote(&line.to));
        let _ = writeln!(text, "  {from} -> {to} [label={}{style}];", quote(&line.label));
    }
    text.push_str("}\n");
    text
}

fn write_within(text: &mut String, picture: &Picture, frame: Option<&str>, depth: usize) {
    let indent = "  ".repeat(depth);
    let (frames, shapes) = picture.within(frame);
    for shape in shapes {
        let form = match shape.kind {
            "start" | "end" | "fail" => "oval",
            "hook" => "hexagon",
            "port" => "cylinder",
            _ => "box",
        };
        let label = [vec![shape.label.clone()], shape.below()].concat().join("\n");
        let _ = writeln!(text, "{indent}{} [label={}, shape={form}];", quote(&shape.id), quote(&label));
    }
    for frame in frames {
        let cluster = quote(&format!("cluster_{}", frame.id));
        let _ = writeln!(text, "{indent}subgraph {cluster} {{\n{indent}  label={};", quote(&frame.label));
        write_within(text, picture, Some(&frame.id), depth + 1);
        let _ = writeln!(text, "{indent}}}");
    }
}

fn quote(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}
