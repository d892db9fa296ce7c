//! The picture as data for programs.

use rondo_protocol::Value;

use super::Picture;

pub(super) fn text(picture: &Picture) -> String {
    let nodes = picture.shapes.iter().map(|shape| {
        Value::from_iter([
            ("id", Value::from(shape.id.as_str())),
            ("kind", Value::from(shape.kind)),
            ("label", Value::from(shape.label.as_str())),
        ])
    });
    let edges = picture.lines.iter().map(|line| {
        Value::from_iter([
            ("from", Value::from(line.from.as_str())),
            ("to", Value::from(line.to.as_str())),
            ("kind", Value::from(line.kind)),
            ("label", Value::from(line.label.as_str())),
            ("max", line.max.map_or(Value::Null, |max| Value::from(u64::from(max)))),
        ])
    });
    let graph = Value::from_iter([
        ("name", Value::from(picture.name.as_str())),
        ("nodes", Value::List(nodes.collect())),
        ("edges", Value::List(edges.collect())),
    ]);
    graph.to_text() + "\n"
}
