use proptest::prelude::*;
use roxmltree::{Document, Node};

use super::layout::{Layout, Rect};
use super::*;

fn shape(id: &str, frame: Option<usize>) -> Shape {
    Shape {
        frame: frame.map(|frame| format!("lanes:{frame}")),
        id: id.to_owned(),
        kind: if id == "start" { "start" } else { "model" },
        label: id.trim_start_matches("role:").to_owned(),
        badges: Vec::new(),
    }
}

fn line(number: usize, from: &str, to: &str, label: &str) -> Line {
    Line {
        order: (0, u32::try_from(number).unwrap(), 0),
        from: from.to_owned(),
        to: to.to_owned(),
        kind: "edge",
        label: label.to_owned(),
        max: None,
        ends_lane: false,
    }
}

fn svg_of(picture: &Picture) -> String {
    svg::text(picture).unwrap()
}

/// The elements with a class.
fn of_class<'a>(document: &'a Document<'a>, class: &'a str) -> impl Iterator<Item = Node<'a, 'a>> {
    let is_of = move |node: &Node<'_, '_>| node.attribute("class").is_some_and(|classes| classes == class);
    document.descendants().filter(is_of)
}

/// The words below an element, without its tooltip.
fn words(node: Node<'_, '_>) -> String {
    let texts = node.descendants().filter(|node| node.has_tag_name("text"));
    texts.filter_map(|text| text.text()).collect::<Vec<_>>().join(" ")
}

/// Pictures in which each node is entered from one with a lower number, with lines in any direction.
fn pictures() -> impl Strategy<Value = Picture> {
    let shapes = prop::collection::vec((any::<prop::sample::Index>(), prop::option::of(0..3_usize)), 1..12);
    let lines =
        prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), "[a-z <&\"]{0,60}"), 0..16);
    (shapes, lines).prop_map(|(drawn, more)| {
        let id = |number: usize| if number == 0 { "start".to_owned() } else { format!("role:r{number}") };
        let mut shapes = vec![shape("start", None)];
        let mut lines = Vec::new();
        for (number, (from, frame)) in drawn.iter().enumerate() {
            shapes.push(shape(&id(number + 1), *frame));
            lines.push(line(lines.len(), &id(from.index(number + 1)), &id(number + 1), "done"));
        }
        for (from, to, label) in more {
            let (from, to) = (from.index(shapes.len()), 1 + to.index(drawn.len()));
            lines.push(line(lines.len(), &id(from), &id(to), label.trim()));
        }
        let frames = (0..3).map(|number| Frame {
            id: format!("lanes:{number}"),
            within: (number == 1).then(|| "lanes:0".to_owned()),
            label: format!("lanes of number {number}, joined at the role that follows"),
            roles: std::collections::BTreeSet::new(),
        });
        // A frame with nothing in it is not drawn.
        let is_used = |frame: &Frame| shapes.iter().any(|shape| shape.frame.as_ref() == Some(&frame.id));
        let mut frames: Vec<Frame> = frames.filter(is_used).collect();
        if !frames.iter().any(|frame| frame.id == "lanes:0") {
            for frame in &mut frames {
                frame.within = None;
            }
        }
        Picture { name: "any".to_owned(), shapes, lines, frames }
    })
}

fn overlap(one: &Rect, other: &Rect) -> bool {
    let near = |a: f64, b: f64, sizes: f64| (a - b).abs() < sizes / 2.0 - 0.1;
    near(one.x, other.x, one.width + other.width) && near(one.y, other.y, one.height + other.height)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn nothing_overlaps_and_everything_is_in_its_frame(picture in pictures()) {
        let layout = Layout::new(&picture).unwrap();
        prop_assert_eq!(layout.lines.len(), picture.lines.len());
        let labels = layout.lines.iter().filter_map(|way| Some((way.label.as_ref()?.at, way.line.label.clone())));
        let shapes = layout.shapes.iter().map(|(at, shape)| (*at, shape.id.clone()));
        let titles = layout.frames.iter().zip(&picture.frames).map(|((_, title), frame)| (title.at, frame.label.clone()));
        let parts: Vec<(Rect, String)> = labels.chain(shapes).chain(titles).collect();
        for (number, (one, name)) in parts.iter().enumerate() {
            for (other, other_name) in parts.iter().skip(number + 1) {
                prop_assert!(!overlap(one, other), "{} and {}: {:?} {:?}", name, other_name, one, other);
            }
            let (width, height) = (one.width / 2.0, one.height / 2.0);
            let is_whole = one.x - width >= 0.0 && one.x + width <= layout.width
                && one.y - height >= 0.0 && one.y + height <= layout.height;
            prop_assert!(is_whole, "{} ends outside: {:?} in {} by {}", name, one, layout.width, layout.height);
        }
        for (at, shape) in &layout.shapes {
            for ((border, _), frame) in layout.frames.iter().zip(&picture.frames) {
                let is_inside = picture.frames.iter().any(|inner| {
                    shape.frame.as_ref() == Some(&inner.id) && (inner.id == frame.id || inner.within.as_ref() == Some(&frame.id))
                });
                prop_assert_eq!(overlap(at, border), is_inside, "{} and the frame {}", shape.id, frame.id);
            }
        }
        prop_assert_eq!(svg_of(&picture), svg_of(&picture));
    }
}

/// A picture with what XML, the layout and the renderer could stumble over.
fn odd() -> Picture {
    let long = "done when \"a\" in output.words and 'b' != input.c & d < e > f ".repeat(5);
    let mut picture = Picture {
        name: "a & b".to_owned(),
        shapes: vec![shape("start", None), shape("role:<i>\"&'\u{7}", None), shape("role:茶道", None)],
        lines: vec![
            line(0, "start", "role:<i>\"&'\u{7}", ""),
            line(1, "role:<i>\"&'\u{7}", "role:<i>\"&'\u{7}", "again max 2"),
            line(2, "role:<i>\"&'\u{7}", "role:茶道", "when x == \"<b>&amp;</b>\""),
            line(3, "role:茶道", "start", &long),
        ],
        frames: Vec::new(),
    };
    picture.shapes[2].badges = vec!["<hook>".to_owned(), "log".repeat(20), "log_2".to_owned()];
    picture
}

#[test]
fn an_svg_holds_each_role_each_badge_and_each_label_once_as_text() {
    let picture = odd();
    let svg = svg_of(&picture);
    let document = Document::parse(&svg).unwrap();
    let shapes: Vec<String> = of_class(&document, "shape").map(words).collect();
    assert_eq!(shapes, ["start", "<i>\"&' ", &format!("茶道 <hook> {} log_2", "log".repeat(20))]);
    let labels: Vec<Node<'_, '_>> = of_class(&document, "label").collect();
    let [again, when, long] = labels.as_slice() else { panic!("{labels:?}") };
    assert_eq!((words(*again), words(*when)), ("again max 2".to_owned(), "when x == \"<b>&amp;</b>\"".to_owned()));
    assert!(words(*long).starts_with("done when \"a\" in output.words") && words(*long).ends_with('…'), "{svg}");
    let tooltip = long.children().find(|node| node.has_tag_name("title")).and_then(|title| title.text());
    assert_eq!(tooltip, Some(picture.lines[3].label.as_str()), "what is cut is in the tooltip");
    let lines =
        document.descendants().filter(|node| node.attribute("class").is_some_and(|class| class.contains("line")));
    assert_eq!(lines.count(), 4);
    assert_eq!(of_class(&document, "line back").count(), 2, "the way to itself, and the way up");
    assert!(svg.contains("prefers-color-scheme:dark"), "{svg}");
}

#[test]
fn what_leads_back_is_what_leads_to_where_every_way_has_been() {
    let back = |lines: &[(&str, &str)]| {
        let lines = lines.iter().map(|(from, to)| line(0, from, to, "")).collect::<Vec<_>>();
        let is_back = cycles::leads_back(&lines);
        let back = lines.into_iter().zip(is_back).filter(|(_, is_back)| *is_back).map(|(line, _)| (line.from, line.to));
        back.map(|(from, to)| format!("{from} {to}")).collect::<Vec<_>>()
    };
    // The short way to `d` makes neither the long one lead back nor what follows it.
    let short_cut = [("start", "a"), ("a", "b"), ("b", "c"), ("c", "d"), ("a", "d"), ("d", "a"), ("d", "d")];
    assert_eq!(back(&short_cut), ["d a", "d d"]);
    // A panel that is asked again: no member comes before every way to the host, but all come before it.
    let panel = [("start", "a"), ("start", "b"), ("a", "host"), ("b", "host"), ("host", "a"), ("host", "b")];
    assert_eq!(back(&panel), ["host a", "host b"]);
}
