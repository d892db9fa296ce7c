//! The types that filters take and give.

use std::ops::Range;

use super::super::types::{Known, Type};
use super::{Typing, Want, either};
use crate::diagnostic::Code;
use crate::workflow::template::Expr;
use crate::workflow::template::expr::{Attribute, Filter};

impl<'w> Typing<'_, 'w> {
    pub(super) fn filter(&mut self, input: &Expr, filter: &Filter, want: Want) -> Known<'w> {
        if let Filter::Default(default) = filter {
            let known = self.expr(input, Want::Presence);
            let default = self.expr(default, if want == Want::Presence { Want::Value } else { want });
            return either(Known { optional: false, ..known }, default);
        }
        let known = self.expr(input, if want == Want::Presence { want } else { Want::Operand });
        for argument in filter.arguments() {
            self.expr(argument, Want::Value);
        }
        self.filtered(&known, filter, &input.range).or_absent(want == Want::Presence && known.optional)
    }

    /// The type of what a filter makes of a value of a known type.
    fn filtered(&mut self, known: &Known<'w>, filter: &Filter, range: &Range<usize>) -> Known<'w> {
        let kind = &known.kind;
        let is_any = matches!(kind, Type::Any);
        let (takes, fits) = match filter {
            Filter::Default(_) | Filter::ToJson(_) => ("anything", !matches!(kind, Type::Step(_) | Type::PastStep(_))),
            Filter::First | Filter::Last | Filter::Reverse => {
                ("lists and texts", matches!(kind, Type::List(_) | Type::Text))
            }
            Filter::Length => ("lists, maps and texts", matches!(kind, Type::List(_) | Type::Text) || kind.is_object()),
            Filter::Items => ("maps", kind.is_object()),
            Filter::Indent { .. }
            | Filter::Lower
            | Filter::Replace(..)
            | Filter::Title
            | Filter::Trim(_)
            | Filter::Truncate { .. }
            | Filter::Upper => ("texts", matches!(kind, Type::Text | Type::Number | Type::Boolean)),
            Filter::Round { .. } => ("numbers", matches!(kind, Type::Number)),
            Filter::Join { .. }
            | Filter::MapAttribute(..)
            | Filter::MapEach(_)
            | Filter::Select(_)
            | Filter::SelectAttribute(..)
            | Filter::Sort { .. }
            | Filter::Sum(_)
            | Filter::Unique { .. } => ("lists", matches!(kind, Type::List(_))),
        };
        if !is_any && !fits {
            let message = format!("`{}` takes {takes}, and this is a {}", filter.name(), kind.name());
            self.fault(Code::WrongOperand, range, message, "choose another filter, or mend the path before it");
            return Type::Any.into();
        }
        let element: Known<'w> = match kind {
            Type::List(element) => (**element).clone(),
            _ => Type::Any.into(),
        };
        match filter {
            Filter::First | Filter::Last if matches!(kind, Type::Text) => Known { kind: Type::Text, optional: true },
            Filter::First | Filter::Last => element.or_absent(true),
            Filter::Items => Type::list().into(),
            Filter::Length | Filter::Round { .. } => Type::Number.into(),
            Filter::Sum(attribute) => {
                let each =
                    attribute.as_ref().map_or(element.clone(), |attribute| self.attribute(&element, attribute, range));
                self.expect(&each, matches!(each.kind, Type::Any | Type::Number), "`sum` adds numbers", range);
                Type::Number.into()
            }
            Filter::Join { attribute, .. } => {
                let each =
                    attribute.as_ref().map_or(element.clone(), |attribute| self.attribute(&element, attribute, range));
                let fits = matches!(each.kind, Type::Any | Type::Text | Type::Number | Type::Boolean);
                self.expect(&each, fits, "`join` takes a list of texts", range);
                Type::Text.into()
            }
            Filter::MapAttribute(attribute, default) => {
                let member = self.attribute(&element, attribute, range);
                let optional = member.optional && default.is_none();
                Type::List(Box::new(Known { optional, ..member })).into()
            }
            Filter::MapEach(inner) => {
                let made = self.filtered(&element, inner, range);
                Type::List(Box::new(made)).into()
            }
            Filter::SelectAttribute(attribute, _) => {
                self.attribute(&element, attribute, range);
                known.kind.clone().into()
            }
            Filter::Sort { attribute, .. } | Filter::Unique { attribute, .. } => {
                if let Some(attribute) = attribute {
                    self.attribute(&element, attribute, range);
                }
                known.kind.clone().into()
            }
            Filter::Select(_) | Filter::Default(_) | Filter::Reverse => known.kind.clone().into(),
            Filter::Indent { .. }
            | Filter::Lower
            | Filter::Replace(..)
            | Filter::Title
            | Filter::ToJson(_)
            | Filter::Trim(_)
            | Filter::Truncate { .. }
            | Filter::Upper => Type::Text.into(),
        }
    }

    fn expect(&mut self, known: &Known<'w>, fits: bool, rule: &str, range: &Range<usize>) {
        if !fits {
            let message = format!("{rule}, and these are of type {}", known.kind.name());
            self.fault(Code::WrongOperand, range, message, "take one member of each: `map(attribute=\"...\")`");
        }
    }

    fn attribute(&mut self, element: &Known<'w>, attribute: &Attribute, range: &Range<usize>) -> Known<'w> {
        attribute.0.iter().fold(element.clone(), |known, segment| {
            let member = self.member(&known, segment, range);
            member.or_absent(known.optional)
        })
    }
}
