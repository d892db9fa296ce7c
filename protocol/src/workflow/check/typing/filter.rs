//! The input and output types of filters.

use std::ops::Range;

use super::super::types::{Known, Type};
use super::{Typing, Want, either, presence};
use crate::diagnostic::Code;
use crate::workflow::template::Expr;
use crate::workflow::template::expr::{Filter, FilterKind, Input, Test};

impl<'w> Typing<'_, 'w> {
    pub(super) fn filter(&mut self, input: &Expr, filter: &Filter, want: Want) -> Known<'w> {
        if filter.kind() == FilterKind::Default
            && let Some(default) = filter.argument(0)
        {
            let known = self.expr(input, Want::Presence);
            let default = self.expr(default, if want == Want::Presence { Want::Value } else { want });
            return either(Known { optional: false, ..known }, default);
        }
        let known = self.expr(input, if want == Want::Presence { want } else { Want::Operand });
        for argument in filter.arguments() {
            self.expr(argument, Want::Value);
        }
        self.filtered(&known, filter, input).or_absent(want == Want::Presence && known.optional)
    }

    /// The result type of a filter for an input of a known type.
    fn filtered(&mut self, known: &Known<'w>, filter: &Filter, input: &Expr) -> Known<'w> {
        let range = &input.range;
        let kind = &known.kind;
        let is_list_or_text = matches!(kind, Type::List(_) | Type::Text);
        let (takes, fits) = match filter.signature.input {
            Input::Anything => ("anything", !matches!(kind, Type::Step(_) | Type::PastStep(..))),
            Input::Countable => ("lists, maps and texts", is_list_or_text || kind.is_object()),
            Input::List => ("lists", matches!(kind, Type::List(_))),
            Input::ListOrText => ("lists and texts", is_list_or_text),
            Input::Map => ("maps", kind.is_object()),
            Input::Number => ("numbers", matches!(kind, Type::Number)),
            Input::Text => ("texts", matches!(kind, Type::Text | Type::Number | Type::Boolean)),
        };
        if !fits && !matches!(kind, Type::Any) {
            let message = format!("`{}` takes {takes}, and this is a {}", filter.signature.name, kind.name());
            self.fault(Code::WrongOperand, range, message, "choose another filter, or correct the path before it");
            return Type::Any.into();
        }
        let element: Known<'w> = match kind {
            Type::List(element) => (**element).clone(),
            _ => Type::Any.into(),
        };
        let mut member = element.clone();
        for segment in filter.attribute.iter().flatten() {
            member = self.member(&member, segment, range).or_absent(member.optional);
        }
        if let Some(test) = &filter.test {
            self.tested(input, &member, test);
        }
        match filter.kind() {
            FilterKind::First | FilterKind::Last if *kind == Type::Text => Known::from(Type::Text).or_absent(true),
            FilterKind::First | FilterKind::Last => element.or_absent(true),
            FilterKind::Items => Type::list().into(),
            FilterKind::Length | FilterKind::Round => Type::Number.into(),
            FilterKind::Sum => {
                self.expect(&member, matches!(member.kind, Type::Any | Type::Number), "`sum` adds numbers", range);
                Type::Number.into()
            }
            FilterKind::Join => {
                let fits = matches!(member.kind, Type::Any | Type::Text | Type::Number | Type::Boolean);
                self.expect(&member, fits, "`join` takes a list of texts", range);
                Type::Text.into()
            }
            FilterKind::Map => {
                let made = match &filter.each {
                    Some(inner) => self.filtered(&element, inner, input),
                    // A default replaces an absent value.
                    None => Known { optional: member.optional && filter.argument(0).is_none(), ..member },
                };
                Type::List(Box::new(made)).into()
            }
            FilterKind::SelectAttribute => Type::List(Box::new(self.selected(element, filter))).into(),
            FilterKind::Default | FilterKind::Reverse | FilterKind::Select | FilterKind::Sort | FilterKind::Unique => {
                known.kind.clone().into()
            }
            FilterKind::Indent
            | FilterKind::Lower
            | FilterKind::Replace
            | FilterKind::Title
            | FilterKind::ToJson
            | FilterKind::Trim
            | FilterKind::Truncate
            | FilterKind::Upper => Type::Text.into(),
        }
    }

    /// The elements that are left by `selectattr`: of steps, those with the status that it asks for.
    fn selected(&self, element: Known<'w>, filter: &Filter) -> Known<'w> {
        let is_of_status = filter.attribute.as_ref().is_some_and(|attribute| presence::is_status(attribute));
        if let (Type::PastStep(role, statuses), Some(Test::Compare(comparison, other))) = (&element.kind, &filter.test)
            && is_of_status
            && let Some(words) = presence::words(*comparison, other)
        {
            let kind = Type::PastStep(*role, self.with_words(*role, statuses.clone(), &words));
            return Known { kind, ..element };
        }
        element
    }

    fn expect(&mut self, known: &Known<'w>, fits: bool, rule: &str, range: &Range<usize>) {
        if !fits {
            let message = format!("{rule}, and these are of type {}", known.kind.name());
            self.fault(Code::WrongOperand, range, message, "take one member of each: `map(attribute=\"...\")`");
        }
    }
}
