//! Parses source to the checked form. The only file that uses minijinja, and only its parser.
//!
//! That parser recurses, and a long chain overflows its stack, so tokens are counted before it runs: what passes the
//! scan is small enough for it and for everything here that recurses afterwards.

use std::ops::Range;

use minijinja::machinery::{self, Span, Token, ast};
use minijinja::syntax::SyntaxConfig;

use super::Statement;
use super::bind::{self, Arguments};
use super::expr::{Arithmetic, Comparison, Expr, Node, Path, Root, Segment};
use super::slip::{self, Blocks};
use crate::canonical::{MAX_INTEGER, Value};
use crate::diagnostic::Code;
use crate::id::is_identifier;
use crate::source::SourceError;

const MAX_SOURCE_BYTES: usize = 64 * 1024;
/// The maximum number of tokens between `{{` and `}}`, or `{%` and `%}`.
const MAX_EXPRESSION_TOKENS: usize = 256;
const MAX_BLOCKS: usize = 16;
/// The maximum number of `elif` of one `if`.
const MAX_ELIF: usize = 32;

pub(super) fn template(source: &str) -> Result<Vec<Statement>, Vec<SourceError>> {
    let syntax = syntax().map_err(|fault| vec![fault])?;
    let blocks = scan(source, false, syntax.clone()).map_err(|fault| vec![fault])?;
    let left_out = lines_of_tags(source, syntax.clone());
    let root = machinery::parse(source, "template", syntax).map_err(|error| {
        let is_end = error.detail().is_some_and(|detail| detail.starts_with("unexpected end of input"));
        let unclosed = if is_end { blocks.unclosed(source) } else { None };
        vec![unclosed.unwrap_or_else(|| syntax_fault(source, &error))]
    })?;
    let mut lowering = Lowering { left_out, ..Lowering::new(source) };
    let statements = match &root {
        ast::Stmt::Template(template) => lowering.statements(&template.children),
        _ => Vec::new(),
    };
    lowering.finish(statements)
}

pub(super) fn expression(source: &str) -> Result<Expr, Vec<SourceError>> {
    scan(source, true, SyntaxConfig::default()).map_err(|fault| vec![fault])?;
    let root = machinery::parse_expr(source).map_err(|error| vec![syntax_fault(source, &error)])?;
    let mut lowering = Lowering::new(source);
    let expr = lowering.expr(&root);
    lowering.finish(expr)
}

fn syntax() -> Result<SyntaxConfig, SourceError> {
    SyntaxConfig::builder().keep_trailing_newline(true).build().map_err(|error| syntax_fault("", &error))
}

fn syntax_fault(source: &str, error: &minijinja::Error) -> SourceError {
    let range = error.range().unwrap_or(0..source.len());
    let detail = error.detail().unwrap_or("it cannot be read");
    slip::syntax(source, within(source, range), detail)
}

/// The range, cut to the source and widened to whole characters.
fn within(source: &str, range: Range<usize>) -> Range<usize> {
    let end = source.ceil_char_boundary(range.end.min(source.len()));
    source.floor_char_boundary(range.start.min(end))..end
}

/// Checks the token limits, and refuses statements that the language does not have. Returns what is open at the end.
fn scan(source: &str, is_expression: bool, syntax: SyntaxConfig) -> Result<Blocks, SourceError> {
    let too_large = |range, what: String| Err(SourceError::new(Code::TemplateTooLarge, range, what));
    if source.len() > MAX_SOURCE_BYTES {
        return too_large(0..source.len(), format!("a template holds at most {MAX_SOURCE_BYTES} bytes"));
    }
    let mut tokens = 0_usize;
    let mut blocks = Blocks::default();
    let mut opens_statement = false;
    let mut is_behind_else = false;
    let mut brace: Option<usize> = None;
    for token in machinery::tokenize(source, is_expression, syntax) {
        let (token, span) = token.map_err(|error| syntax_fault(source, &error))?;
        let range = within(source, range_of(span));
        tokens += 1;
        if tokens > MAX_EXPRESSION_TOKENS {
            return too_large(range, format!("an expression holds at most {MAX_EXPRESSION_TOKENS} tokens"));
        }
        if is_expression && matches!(token, Token::BraceOpen | Token::Mod) && brace == Some(range.start) {
            let at = range.start.saturating_sub(1)..range.end;
            let fault = SourceError::new(Code::BracesInExpression, at, "braces in an expression");
            return Err(fault.with_hint("this place holds a bare expression: leave the braces out"));
        }
        brace = matches!(token, Token::BraceOpen).then_some(range.end);
        if is_behind_else && matches!(token, Token::Ident("if")) {
            let fault = SourceError::new(Code::TemplateConstruct, range, "templates have no `else if`");
            return Err(fault.with_hint("write `elif`"));
        }
        is_behind_else = opens_statement && matches!(token, Token::Ident("else"));
        if opens_statement && let Token::Ident(word) = &token {
            blocks.take(word, range.clone(), source)?;
            if blocks.depth() > MAX_BLOCKS {
                return too_large(range, format!("blocks nest at most {MAX_BLOCKS} deep"));
            }
            if blocks.elifs() > MAX_ELIF {
                return too_large(range, format!("at most {MAX_ELIF} elif may be open at one place"));
            }
        }
        opens_statement = matches!(token, Token::BlockStart);
        if matches!(token, Token::VariableStart | Token::BlockStart | Token::TemplateData(_)) {
            tokens = 0;
        }
    }
    Ok(blocks)
}

/// What is left out of the text: the lines that hold nothing but block tags and comments. Elsewhere a tag changes no
/// white space; `trim_blocks` of Jinja would join a line that ends in a tag with the next one.
fn lines_of_tags(source: &str, syntax: SyntaxConfig) -> Vec<Range<usize>> {
    let mut left_out = Vec::new();
    let (mut blanks, mut has_tag, mut has_more, mut end_before) = (Vec::new(), false, false, 0);
    // Comments are no tokens.
    let has_comment = |gap: Range<usize>| source.get(gap).is_some_and(|gap| gap.contains("{#"));
    for (token, span) in machinery::tokenize(source, false, syntax).flatten() {
        let range = within(source, range_of(span));
        let before = std::mem::replace(&mut end_before, range.end)..range.start;
        let Token::TemplateData(text) = token else {
            let is_tag = matches!(token, Token::BlockStart);
            let is_print = matches!(token, Token::VariableStart);
            has_tag |= is_tag || is_print && has_comment(before);
            has_more |= is_print;
            continue;
        };
        has_tag |= has_comment(before);
        let mut at = offset_of(source, text, span);
        for piece in text.split_inclusive('\n') {
            let end = at + piece.len();
            blanks.push(at..end);
            has_more |= !piece.trim().is_empty();
            if piece.ends_with('\n') {
                if has_tag && !has_more {
                    left_out.append(&mut blanks);
                }
                blanks.clear();
                (has_tag, has_more) = (false, false);
            }
            at = end;
        }
    }
    if (has_tag || has_comment(end_before..source.len())) && !has_more {
        left_out.append(&mut blanks);
    }
    left_out
}

/// Where a text begins in the source. Blanks that `-` takes away are left out of the text, not of its range.
fn offset_of(source: &str, text: &str, span: Span) -> usize {
    let range = within(source, range_of(span));
    range.start + source.get(range).and_then(|whole| whole.find(text)).unwrap_or(0)
}

fn range_of(span: Span) -> Range<usize> {
    let offset = |offset: u32| usize::try_from(offset).unwrap_or(usize::MAX);
    offset(span.start_offset)..offset(span.end_offset)
}

/// Converts minijinja's tree. It continues after a fault, so that all are found, with `none` in place of what could not
/// be converted.
struct Lowering<'s> {
    source: &'s str,
    /// The parts of the source that are left out of texts, in order.
    left_out: Vec<Range<usize>>,
    faults: Vec<SourceError>,
    loops: Vec<Vec<Box<str>>>,
}

impl<'s> Lowering<'s> {
    fn new(source: &'s str) -> Self {
        Self { source, left_out: Vec::new(), faults: Vec::new(), loops: Vec::new() }
    }

    fn finish<T>(mut self, lowered: T) -> Result<T, Vec<SourceError>> {
        if self.faults.is_empty() {
            return Ok(lowered);
        }
        self.faults.sort_by_key(|fault| fault.span);
        Err(self.faults)
    }

    fn refuse(&mut self, range: Range<usize>, message: impl Into<String>, hint: &str) -> Node {
        self.fault(SourceError::new(Code::TemplateConstruct, range, message).with_hint(hint))
    }

    fn statements(&mut self, children: &[ast::Stmt<'_>]) -> Vec<Statement> {
        children.iter().filter_map(|child| self.statement(child)).collect()
    }

    fn statement(&mut self, statement: &ast::Stmt<'_>) -> Option<Statement> {
        match statement {
            ast::Stmt::EmitRaw(raw) => {
                let begin = offset_of(self.source, raw.raw, raw.span());
                let braced = self.braced(raw.raw, begin);
                Some(Statement::Text { text: self.without_lines_of_tags(raw.raw, begin).into(), braced })
            }
            ast::Stmt::EmitExpr(emit) => Some(Statement::Print(self.expr(&emit.expr))),
            ast::Stmt::IfCond(block) => Some(Statement::If {
                test: self.expr(&block.expr),
                then: self.statements(&block.true_body),
                otherwise: self.statements(&block.false_body),
            }),
            ast::Stmt::ForLoop(block) => Some(self.for_loop(block, range_of(block.span()))),
            // The scan refuses all other statements.
            _ => {
                self.refuse(0..0, "templates do not have this statement", "use `if` and `for`");
                None
            }
        }
    }

    /// A text that begins at `begin`, without what belongs to lines of tags.
    fn without_lines_of_tags(&self, text: &str, begin: usize) -> String {
        let mut kept = String::with_capacity(text.len());
        let mut at = begin;
        let end = begin + text.len();
        for blank in self.left_out.iter().filter(|blank| begin <= blank.start && blank.end <= end) {
            kept.push_str(self.source.get(at..blank.start).unwrap_or_default());
            at = blank.end;
        }
        kept.push_str(self.source.get(at..end).unwrap_or_default());
        kept
    }

    /// The paths in single braces in a text that begins at `offset`.
    fn braced(&mut self, text: &str, offset: usize) -> Vec<Expr> {
        let mut braced = Vec::new();
        for (open, _) in text.match_indices('{') {
            let Some(rest) = text.get(open + 1..) else { continue };
            let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || "_. ".contains(c))).unwrap_or(rest.len());
            let (inner, behind) = rest.split_at(end);
            let mut names = inner.trim_matches(' ').split('.');
            let root = names.next().unwrap_or_default();
            let is_path = is_identifier(root) && root != "loop" && names.clone().all(is_identifier);
            let is_doubled = behind.starts_with("}}") || text.get(..open).is_some_and(|before| before.ends_with('{'));
            if !is_path || is_doubled || !behind.starts_with('}') {
                continue;
            }
            let range = offset + open..offset + open + 1 + end + 1;
            let Node::Path(mut path) = self.variable(root, range.clone()) else { continue };
            path.segments = names.map(|name| Segment::Name(name.into())).collect();
            braced.push(Expr { range, node: Node::Path(path) });
        }
        braced
    }

    fn for_loop(&mut self, block: &ast::ForLoop<'_>, range: Range<usize>) -> Statement {
        let over = self.expr(&block.iter);
        if !is_path_with_filters(&over) {
            let message = "a loop goes over a path, or a path with filters";
            self.refuse(over.range.clone(), message, "name the list by its path");
        }
        if let Some(filter) = &block.filter_expr {
            let at = range_of(filter.span());
            self.refuse(at, "a loop has no `if` of its own", "use `| selectattr(...)`, or `{% if %}` within the loop");
        }
        if block.recursive {
            self.refuse(range.clone(), "loops are not recursive", "write one loop for each level");
        }
        let names = self.targets(&block.target, range);
        self.loops.push(names.clone());
        let body = self.statements(&block.body);
        self.loops.pop();
        Statement::For { names, over, body, otherwise: self.statements(&block.else_body) }
    }

    fn targets(&mut self, target: &ast::Expr<'_>, range: Range<usize>) -> Vec<Box<str>> {
        let name = |expr: &ast::Expr<'_>| match expr {
            ast::Expr::Var(var) => Some(Box::from(var.id)),
            _ => None,
        };
        let names: Option<Vec<Box<str>>> = match target {
            ast::Expr::List(list) if list.items.len() == 2 => list.items.iter().map(name).collect(),
            other => name(other).map(|name| vec![name]),
        };
        names.unwrap_or_else(|| {
            let hint = "write `for x in ...` or `for key, value in ... | items`";
            self.refuse(range, "a loop gives one name, or two for pairs", hint);
            Vec::new()
        })
    }

    fn boxed(&mut self, expr: &ast::Expr<'_>) -> Box<Expr> {
        Box::new(self.expr(expr))
    }

    fn expr(&mut self, expr: &ast::Expr<'_>) -> Expr {
        let own = range_of(expr.span());
        let node = match expr {
            ast::Expr::Var(var) => self.variable(var.id, own.clone()),
            ast::Expr::Const(constant) => match value_of(&constant.value) {
                Some(value) => Node::Const(value),
                None => self.refuse(own.clone(), "this number is outside ±(2^64-1)", "use a smaller number"),
            },
            ast::Expr::GetAttr(get) => {
                if let ast::Expr::Var(var) = &get.expr
                    && var.id == "loop"
                {
                    return Expr { range: range_of(var.span()).start..own.end, node: self.loop_member(get.name, own) };
                }
                return self.member(&get.expr, Segment::Name(get.name.into()), own.end);
            }
            ast::Expr::GetItem(get) => {
                if let Some(segment) = subscript(&get.subscript_expr) {
                    return self.member(&get.expr, segment, own.end);
                }
                let at = range_of(get.subscript_expr.span());
                let hint = "use `| first`, `| last` or a loop";
                self.refuse(at, "a subscript is a text or a number written out", hint)
            }
            ast::Expr::UnaryOp(unary) => match unary.op {
                ast::UnaryOpKind::Not => self.negation(&unary.expr),
                ast::UnaryOpKind::Neg => Node::Negate(self.boxed(&unary.expr)),
            },
            ast::Expr::BinOp(binary) => self.binary(binary, own.clone()),
            ast::Expr::Compare(compare) => {
                let first = self.boxed(&compare.expr);
                Node::Compare(first, compare.ops.iter().map(|op| (comparison(op.op), self.expr(&op.expr))).collect())
            }
            ast::Expr::IfExpr(choice) => Node::If {
                test: self.boxed(&choice.test_expr),
                then: self.boxed(&choice.true_expr),
                otherwise: match &choice.false_expr {
                    Some(expr) => self.boxed(expr),
                    // Without `else` there is nothing to print.
                    None => Box::new(Expr { range: own.end..own.end, node: Node::Const(Value::from("")) }),
                },
            },
            ast::Expr::Filter(filter) => self.filter(filter, own.clone()),
            ast::Expr::Test(test) => {
                let input = self.boxed(&test.expr);
                let arguments = self.arguments(&test.args, own.clone());
                let test = bind::test(test.name, arguments, own.clone());
                test.map_or_else(|fault| self.fault(fault), |test| Node::Test(input, Box::new(test)))
            }
            ast::Expr::List(list) => Node::List(list.items.iter().map(|item| self.expr(item)).collect()),
            ast::Expr::Slice(_) => {
                self.refuse(own.clone(), "templates have no slices", "use `| first`, `| last` or `| truncate`")
            }
            ast::Expr::Call(call) => self.call(call, own.clone()),
            ast::Expr::Tuple(_) => self.refuse(own.clone(), "templates have no tuples", "write a list: `[a, b]`"),
            ast::Expr::Map(_) => {
                let hint = "in `args`, `input` and `result` write the map in YAML, with a template for each value";
                self.refuse(own.clone(), "templates have no maps written out", hint)
            }
        };
        Expr { range: range(&node, own), node }
    }

    fn fault(&mut self, fault: SourceError) -> Node {
        self.faults.push(fault);
        Node::Const(Value::Null)
    }

    fn variable(&mut self, name: &str, range: Range<usize>) -> Node {
        if name == "loop" {
            return self.refuse(range, "`loop` is not a value", "`loop.index` is the number of the round, from 1");
        }
        let local = self.loops.iter().rev().enumerate().find_map(|(up, names)| {
            let slot = names.iter().position(|local| **local == *name)?;
            Some(Root::Local { up, slot, name: name.into() })
        });
        Node::Path(Path { root: local.unwrap_or_else(|| Root::Name(name.into())), segments: Vec::new() })
    }

    fn loop_member(&mut self, name: &str, range: Range<usize>) -> Node {
        match name {
            "index" if !self.loops.is_empty() => Node::LoopIndex,
            "index" => self.refuse(range, "`loop.index` outside a loop", "use it within `{% for %}`"),
            other => self.refuse(range, format!("`loop` has no `{other}`"), "there is only `loop.index`, from 1"),
        }
    }

    /// The parser's span of a member starts at its dot, so the start of the base is used.
    fn member(&mut self, base: &ast::Expr<'_>, segment: Segment, end: usize) -> Expr {
        let base = self.expr(base);
        let range = base.range.start..end;
        let node = match base.node {
            Node::Path(mut path) => {
                path.segments.push(segment);
                Node::Path(path)
            }
            node => Node::Member(Box::new(Expr { range: base.range, node }), segment),
        };
        Expr { range, node }
    }

    /// Recognizes `not a in b`, which is how the parser represents `a not in b`.
    fn negation(&mut self, expr: &ast::Expr<'_>) -> Node {
        let operand = self.expr(expr);
        match operand.node {
            Node::Compare(first, rest) if matches!(rest.as_slice(), [(Comparison::In, _)]) => {
                Node::Compare(first, rest.into_iter().map(|(_, operand)| (Comparison::NotIn, operand)).collect())
            }
            node => Node::Not(Box::new(Expr { range: operand.range, node })),
        }
    }

    fn binary(&mut self, binary: &ast::BinOp<'_>, range: Range<usize>) -> Node {
        use ast::BinOpKind as Kind;
        let (left, right) = (self.boxed(&binary.left), self.boxed(&binary.right));
        let compare = |comparison, left, right: Box<Expr>| Node::Compare(left, vec![(comparison, *right)]);
        let operator = match binary.op {
            Kind::Eq => return compare(Comparison::Equal, left, right),
            Kind::Ne => return compare(Comparison::NotEqual, left, right),
            Kind::Lt => return compare(Comparison::Less, left, right),
            Kind::Lte => return compare(Comparison::LessOrEqual, left, right),
            Kind::Gt => return compare(Comparison::Greater, left, right),
            Kind::Gte => return compare(Comparison::GreaterOrEqual, left, right),
            Kind::In => return compare(Comparison::In, left, right),
            Kind::ScAnd => return Node::And(left, right),
            Kind::ScOr => return Node::Or(left, right),
            Kind::Concat => return Node::Concat(left, right),
            Kind::Add => Arithmetic::Add,
            Kind::Sub => Arithmetic::Subtract,
            Kind::Mul => Arithmetic::Multiply,
            Kind::Div => Arithmetic::Divide,
            Kind::FloorDiv => Arithmetic::FloorDivide,
            Kind::Rem => Arithmetic::Remainder,
            Kind::Pow => Arithmetic::Power,
        };
        let is_text = |expr: &Expr| matches!(expr.node, Node::Const(Value::Str(_)) | Node::Concat(..));
        if is_text(&left) || is_text(&right) {
            let hint = match operator {
                Arithmetic::Add => "texts are joined with `~`",
                Arithmetic::Remainder => "put the values into the text: `{{ ... }}`",
                _ => "texts are not repeated; write the text out",
            };
            return self.refuse(range, format!("`{}` calculates with numbers", operator.symbol()), hint);
        }
        Node::Arithmetic(operator, left, right)
    }

    fn filter(&mut self, filter: &ast::Filter<'_>, range: Range<usize>) -> Node {
        let Some(input) = &filter.expr else {
            return self.refuse(range, "a filter without a value", "write `value | filter`");
        };
        let input = self.boxed(input);
        let arguments = self.arguments(&filter.args, range.clone());
        let filter = bind::filter(filter.name, arguments, range);
        filter.map_or_else(|fault| self.fault(fault), |filter| Node::Filter(input, Box::new(filter)))
    }

    fn arguments(&mut self, given: &[ast::CallArg<'_>], range: Range<usize>) -> Arguments {
        let mut arguments = Arguments::default();
        for argument in given {
            match argument {
                ast::CallArg::Pos(expr) => arguments.positional.push(self.expr(expr)),
                ast::CallArg::Kwarg(name, expr) => arguments.named.push(((*name).into(), self.expr(expr))),
                ast::CallArg::PosSplat(_) | ast::CallArg::KwargSplat(_) => {
                    self.refuse(range.clone(), "arguments are written one by one", "leave the `*` out");
                }
            }
        }
        arguments
    }

    fn call(&mut self, call: &ast::Call<'_>, range: Range<usize>) -> Node {
        let (name, of) = match call.identify_call() {
            ast::CallType::Method(object, name) => (name, Some(object)),
            ast::CallType::Function(name) => match call.args.first() {
                Some(ast::CallArg::Pos(first)) => (name, Some(first)),
                _ => (name, None),
            },
            ast::CallType::Object(_) => ("this", None),
        };
        let value = of.map(|expr| self.written(expr)).filter(|value| !value.is_empty());
        let hint = bind::instead_of_call(name, value.unwrap_or("value"));
        self.refuse(range, format!("templates call nothing, and `{name}(...)` is a call"), &hint)
    }

    /// An expression as written. Its own faults are not reported.
    fn written(&mut self, expr: &ast::Expr<'_>) -> &'s str {
        let known = self.faults.len();
        let range = self.expr(expr).range;
        self.faults.truncate(known);
        self.source.get(range).unwrap_or_default()
    }
}

/// Starts at the first byte of the first part: the parser's span of a chain starts late.
fn range(node: &Node, own: Range<usize>) -> Range<usize> {
    match node {
        Node::Filter(first, _) | Node::Test(first, _) | Node::If { then: first, .. } => first.range.start..own.end,
        Node::And(left, right)
        | Node::Or(left, right)
        | Node::Arithmetic(_, left, right)
        | Node::Concat(left, right) => left.range.start..right.range.end,
        Node::Compare(left, rest) => left.range.start..rest.last().map_or(own.end, |(_, operand)| operand.range.end),
        _ => own,
    }
}

fn is_path_with_filters(expr: &Expr) -> bool {
    match &expr.node {
        Node::Path(_) => true,
        Node::Filter(input, _) => is_path_with_filters(input),
        _ => false,
    }
}

fn subscript(expr: &ast::Expr<'_>) -> Option<Segment> {
    let ast::Expr::Const(constant) = expr else { return None };
    match value_of(&constant.value)? {
        Value::Str(name) => Some(Segment::Name(name.into())),
        Value::Int(index) => usize::try_from(index).ok().map(Segment::Index),
        _ => None,
    }
}

/// The value of a constant; `None` for a number that has no canonical form.
fn value_of(constant: &minijinja::Value) -> Option<Value> {
    use minijinja::value::ValueKind;
    match constant.kind() {
        ValueKind::Bool => Some(Value::Bool(constant.is_true())),
        ValueKind::String => constant.as_str().map(Value::from),
        ValueKind::Number if constant.is_integer() => {
            i128::try_from(constant.clone()).ok().filter(|number| number.abs() <= MAX_INTEGER).map(Value::Int)
        }
        ValueKind::Number => Value::number(f64::try_from(constant.clone()).ok()?).ok(),
        _ => Some(Value::Null),
    }
}

fn comparison(operator: ast::CompareOpKind) -> Comparison {
    match operator {
        ast::CompareOpKind::Eq => Comparison::Equal,
        ast::CompareOpKind::Ne => Comparison::NotEqual,
        ast::CompareOpKind::Lt => Comparison::Less,
        ast::CompareOpKind::Lte => Comparison::LessOrEqual,
        ast::CompareOpKind::Gt => Comparison::Greater,
        ast::CompareOpKind::Gte => Comparison::GreaterOrEqual,
        ast::CompareOpKind::In => Comparison::In,
        ast::CompareOpKind::NotIn => Comparison::NotIn,
    }
}
