//! Points of a source file that can be mutated, and the file with all mutants in it, each behind its switch.
//!
//! Operands and statements stay as they are in the source, so that points may lie in one another. Nothing is mutated
//! that the compiler evaluates, that only a test or a `Display` has, and nothing in the arguments of macros.

use proc_macro2::Span;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::ops::Range;
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};
use syn::{Attribute, BinOp, Block, Expr, Lit, Stmt};

/// What is done to the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// `==` and `!=` are exchanged.
    Comparison,
    /// `<` and `<=`, `>` and `>=` are exchanged, or the 1 of `+ 1` and `- 1` is left out.
    Boundary,
    /// `&&` and `||` are exchanged.
    Connective,
    /// A call or an assignment is left out.
    Deleted,
    /// Two requests that follow one another are pushed in the other order.
    Swapped,
}

impl Kind {
    /// All kinds, in the order of the table.
    pub const ALL: [Self; 5] = [Self::Comparison, Self::Boundary, Self::Connective, Self::Deleted, Self::Swapped];

    /// Its name in tables and lists.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Comparison => "comparison",
            Self::Boundary => "boundary",
            Self::Connective => "and/or",
            Self::Deleted => "deleted",
            Self::Swapped => "swapped",
        }
    }
}

/// A point, with all that tells it from others in whatever version of its file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Key {
    /// The file, from `dm-core/src`.
    pub file: String,
    /// The function.
    pub function: String,
    /// What is done.
    pub kind: Kind,
    /// The code to which it is done, in one line.
    pub code: String,
    /// How many points of the file before it say the same.
    pub nth: usize,
}

/// A point in a version of its file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Point {
    /// Its number in the copy, from 1 on.
    pub number: u32,
    /// Its line.
    pub line: usize,
    /// What tells it from others.
    pub key: Key,
}

type Bytes = Range<usize>;

/// What stands in place of a piece of source.
#[derive(Debug)]
enum Change {
    /// Two operands, and the operators between them: `[as it is, mutant]`.
    Operators { left: Bytes, right: Bytes, operators: [&'static str; 2] },
    /// Two operands of `&&` (`true`) or `||`.
    Connective { left: Bytes, right: Bytes, is_and: bool },
    /// A literal 1 with this suffix.
    One { suffix: String },
    /// A statement.
    Deleted,
    /// Statements that push, one behind the other; the number of the point is that of the first pair.
    Swapped { statements: Vec<Bytes> },
}

/// A change of a file.
#[derive(Debug)]
struct Site {
    at: Bytes,
    change: Change,
    /// The points: one, or as many as pairs are swapped.
    points: Vec<usize>,
}

/// A file with its points.
#[derive(Debug)]
pub struct Source {
    text: String,
    sites: Vec<Site>,
    /// Its points.
    pub points: Vec<Point>,
    /// Functions, for errors that lie in no point.
    functions: Vec<Bytes>,
    /// Where points stand in the source.
    places: Vec<Bytes>,
}

/// A file with mutants in it.
#[derive(Debug)]
pub struct Mutated {
    /// Its text.
    pub text: String,
    /// Pieces of it that a point added, with its place among [`Source::points`].
    pieces: Vec<(Bytes, usize)>,
    /// Functions.
    functions: Vec<(Bytes, usize)>,
}

impl Source {
    /// Reads a file; its points have numbers from `first` on.
    pub fn read(file: &str, text: String, first: u32) -> syn::Result<Self> {
        let parsed = syn::parse_file(&text)?;
        let mut finder = Finder {
            text: &text,
            file,
            function: Vec::new(),
            sites: Vec::new(),
            points: Vec::new(),
            places: Vec::new(),
            functions: Vec::new(),
        };
        finder.visit_file(&parsed);
        let Finder { mut sites, mut points, places, functions, .. } = finder;
        // The outer ones first.
        sites.sort_by_key(|site| (site.at.start, core::cmp::Reverse(site.at.end)));
        for at in 0..points.len() {
            points[at].number = first + at as u32;
            points[at].key.nth = points[..at].iter().filter(|other| other.key == points[at].key).count();
        }
        Ok(Self { text, sites, points, functions, places })
    }

    /// The file with all mutants in it but those of `dropped`, by number.
    pub fn mutate(&self, dropped: &BTreeSet<u32>) -> Mutated {
        let mut writer = Writer { source: self, dropped, text: String::new(), pieces: Vec::new(), starts: Vec::new() };
        writer.render(0..self.text.len(), 0);
        let Writer { text, pieces, starts, .. } = writer;
        let out = |at: usize| {
            let index = starts.partition_point(|(from, _)| *from <= at);
            let (from, to) = starts[index.saturating_sub(1)];
            to + (at - from)
        };
        let functions = self.functions.iter().enumerate().map(|(at, bytes)| (out(bytes.start)..out(bytes.end), at));
        Mutated { functions: functions.collect(), text, pieces }
    }

    /// The points of a function.
    fn points_of(&self, function: usize) -> impl Iterator<Item = u32> {
        let of = self.functions[function].clone();
        let inside = self.points.iter().zip(&self.places).filter(move |(_, at)| of.contains(&at.start));
        inside.map(|(point, _)| point.number)
    }

    /// The points that an error at these bytes of `mutated` speaks of: the innermost around it, or, if there is none,
    /// all that leave out or exchange statements of its function, or at last all of its function.
    pub fn blamed(&self, mutated: &Mutated, spans: &[(Bytes, bool)], dropped: &BTreeSet<u32>) -> BTreeSet<u32> {
        for primary in [true, false] {
            let around = spans.iter().filter(|(_, is_primary)| *is_primary == primary).filter_map(|(at, _)| {
                let pieces = mutated.pieces.iter().filter(|(piece, _)| piece.start <= at.start && at.end <= piece.end);
                pieces.min_by_key(|(piece, _)| piece.len()).map(|(_, point)| self.points[*point].number)
            });
            let around: BTreeSet<u32> = around.collect();
            if !around.is_empty() {
                return around;
            }
        }
        let functions = mutated
            .functions
            .iter()
            .filter(|(function, _)| spans.iter().any(|(at, _)| function.start <= at.start && at.end <= function.end));
        let Some((_, function)) = functions.min_by_key(|(function, _)| function.len()) else { return BTreeSet::new() };
        let all: BTreeSet<u32> = self.points_of(*function).filter(|number| !dropped.contains(number)).collect();
        let statements = self.points.iter().filter(|point| matches!(point.key.kind, Kind::Deleted | Kind::Swapped));
        let statements: BTreeSet<u32> = statements.map(|point| point.number).filter(|n| all.contains(n)).collect();
        if statements.is_empty() { all } else { statements }
    }
}

struct Writer<'a> {
    source: &'a Source,
    dropped: &'a BTreeSet<u32>,
    text: String,
    pieces: Vec<(Bytes, usize)>,
    /// Where pieces of the source begin in the text, in order.
    starts: Vec<(usize, usize)>,
}

impl Writer<'_> {
    /// Writes a part of the source; `site` is the first that may lie in it.
    fn render(&mut self, part: Bytes, mut site: usize) {
        let mut at = part.start;
        while let Some(next) = self.source.sites.get(site) {
            if next.at.start >= part.end {
                break;
            }
            site += 1;
            let is_inside = next.at.start >= at && next.at.end <= part.end;
            if !is_inside || !self.is_on(next) {
                continue;
            }
            self.copy(at..next.at.start);
            self.write(next, site);
            at = next.at.end;
        }
        self.copy(at..part.end);
    }

    fn is_on(&self, site: &Site) -> bool {
        site.points.iter().any(|point| !self.dropped.contains(&self.source.points[*point].number))
    }

    fn copy(&mut self, part: Bytes) {
        self.starts.push((part.start, self.text.len()));
        self.text.push_str(&self.source.text[part]);
    }

    fn write(&mut self, site: &Site, inner: usize) {
        let begin = self.text.len();
        let point = site.points[0];
        let number = self.source.points[point].number;
        match &site.change {
            Change::Operators { left, right, operators: [is, mutant] } => {
                self.text.push_str("(match (&(");
                self.render(left.clone(), inner);
                self.text.push_str("), &(");
                self.render(right.clone(), inner);
                let _ = write!(
                    self.text,
                    ")) {{ (mutate_l, mutate_r) => if crate::mutate::on({number}) {{ *mutate_l {mutant} *mutate_r }} \
                     else {{ *mutate_l {is} *mutate_r }} }})"
                );
            }
            Change::Connective { left, right, is_and } => {
                self.text.push_str("({ let mutate_l: bool = ");
                self.render(left.clone(), inner);
                let differs = if *is_and { "!=" } else { "==" };
                let _ = write!(self.text, "; if mutate_l {differs} crate::mutate::on({number}) {{ ");
                self.render(right.clone(), inner);
                self.text.push_str(" } else { mutate_l } })");
            }
            Change::One { suffix } => {
                let _ = write!(self.text, "(if crate::mutate::on({number}) {{ 0{suffix} }} else {{ 1{suffix} }})");
            }
            Change::Deleted => {
                let _ = write!(self.text, "if !crate::mutate::on({number}) {{ ");
                self.render(site.at.clone(), inner);
                self.text.push_str(" }");
            }
            Change::Swapped { statements } => {
                self.swap(site, statements, inner);
                return;
            }
        }
        self.pieces.push((begin..self.text.len(), point));
    }

    fn swap(&mut self, site: &Site, statements: &[Bytes], inner: usize) {
        // What a `let` of the row names has to be known behind it.
        let text = &self.source.text;
        let mut order: Vec<String> = Vec::new();
        for statement in statements {
            let statement = &text[statement.clone()];
            if let Some(binding) = statement.strip_prefix("let ") {
                let name: String = binding.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                let _ = write!(self.text, "let {name}; ");
                order.push(binding.to_owned());
            } else {
                order.push(statement.to_owned());
            }
        }
        for (pair, point) in site.points.iter().enumerate() {
            let number = self.source.points[*point].number;
            if self.dropped.contains(&number) {
                continue;
            }
            let begin = self.text.len();
            let mut order = order.clone();
            order.swap(pair, pair + 1);
            let _ = write!(self.text, "if crate::mutate::on({number}) {{ {} }} else ", order.join(" "));
            self.pieces.push((begin..self.text.len(), *point));
        }
        self.text.push_str("{ ");
        for statement in statements {
            let is_let = self.source.text[statement.clone()].starts_with("let ");
            let from = statement.start + if is_let { "let ".len() } else { 0 };
            self.render(from..statement.end, inner);
            self.text.push(' ');
        }
        self.text.push('}');
    }
}

struct Finder<'a> {
    text: &'a str,
    file: &'a str,
    function: Vec<String>,
    sites: Vec<Site>,
    points: Vec<Point>,
    places: Vec<Bytes>,
    functions: Vec<Bytes>,
}

impl Finder<'_> {
    fn add(&mut self, kind: Kind, span: Span, shown: Bytes, code: String) -> usize {
        let key = Key {
            file: self.file.to_owned(),
            function: self.function.last().cloned().unwrap_or_default(),
            kind,
            code,
            nth: 0,
        };
        self.points.push(Point { number: 0, line: span.start().line, key });
        self.places.push(shown);
        self.points.len() - 1
    }

    fn code(&self, at: Bytes) -> String {
        one_line(&self.text[at])
    }

    fn function(&mut self, name: &syn::Ident, whole: Bytes, visit: impl FnOnce(&mut Self)) {
        self.function.push(name.to_string());
        self.functions.push(whole);
        visit(self);
        self.function.pop();
    }

    fn statements(&mut self, block: &Block) {
        for statement in &block.stmts {
            if let Stmt::Expr(expr, Some(_)) = statement
                && is_deletable(expr)
            {
                let at = statement.span().byte_range();
                if self.text[at.clone()].starts_with('#') {
                    continue;
                }
                let code = self.code(at.clone());
                let point = self.add(Kind::Deleted, statement.span(), at.clone(), code);
                self.sites.push(Site { at, change: Change::Deleted, points: vec![point] });
            }
        }
        for row in block.stmts.chunk_by(|one, next| pushes(one) && pushes(next)).filter(|row| row.len() > 1) {
            let statements: Vec<Bytes> = row.iter().map(|statement| statement.span().byte_range()).collect();
            let at = statements[0].start..statements[row.len() - 1].end;
            let points = row.windows(2).zip(statements.windows(2)).map(|(pair, bytes)| {
                let code = format!("{} / {}", self.code(bytes[0].clone()), self.code(bytes[1].clone()));
                self.add(Kind::Swapped, pair[0].span(), bytes[0].start..bytes[1].end, code)
            });
            let points = points.collect();
            self.sites.push(Site { at, change: Change::Swapped { statements }, points });
        }
    }

    fn binary(&mut self, binary: &syn::ExprBinary) {
        let at = binary.span().byte_range();
        let (left, right) = (binary.left.span().byte_range(), binary.right.span().byte_range());
        let code = self.code(at.clone());
        let operators = match binary.op {
            BinOp::Eq(_) => Some((Kind::Comparison, ["==", "!="])),
            BinOp::Ne(_) => Some((Kind::Comparison, ["!=", "=="])),
            BinOp::Lt(_) => Some((Kind::Boundary, ["<", "<="])),
            BinOp::Le(_) => Some((Kind::Boundary, ["<=", "<"])),
            BinOp::Gt(_) => Some((Kind::Boundary, [">", ">="])),
            BinOp::Ge(_) => Some((Kind::Boundary, [">=", ">"])),
            _ => None,
        };
        if let Some((kind, operators)) = operators {
            let point = self.add(kind, binary.op.span(), at.clone(), code);
            self.sites.push(Site { at, change: Change::Operators { left, right, operators }, points: vec![point] });
            return;
        }
        match binary.op {
            BinOp::And(_) | BinOp::Or(_) => {
                let operands = [&*binary.left, &*binary.right];
                if operands.iter().any(|operand| has_let(operand) || asks_planted(operand)) {
                    return;
                }
                let point = self.add(Kind::Connective, binary.op.span(), at.clone(), code);
                let is_and = matches!(binary.op, BinOp::And(_));
                self.sites.push(Site { at, change: Change::Connective { left, right, is_and }, points: vec![point] });
            }
            BinOp::Add(_) | BinOp::Sub(_) => {
                if let Expr::Lit(literal) = &*binary.right
                    && let Lit::Int(number) = &literal.lit
                    && number.base10_digits() == "1"
                {
                    let point = self.add(Kind::Boundary, binary.op.span(), at, code);
                    let suffix = number.suffix().to_owned();
                    self.sites.push(Site { at: right, change: Change::One { suffix }, points: vec![point] });
                }
            }
            _ => {}
        }
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if item.sig.constness.is_none() && !is_test(&item.attrs) {
            let whole = item.span().byte_range();
            self.function(&item.sig.ident, whole, |finder| visit::visit_item_fn(finder, item));
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if item.sig.constness.is_none() && !is_test(&item.attrs) {
            let whole = item.span().byte_range();
            self.function(&item.sig.ident, whole, |finder| visit::visit_impl_item_fn(finder, item));
        }
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if item.sig.constness.is_none() {
            let whole = item.span().byte_range();
            self.function(&item.sig.ident, whole, |finder| visit::visit_trait_item_fn(finder, item));
        }
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let shows = item.trait_.as_ref().and_then(|(_, path, _)| path.segments.last());
        if !is_test(&item.attrs) && !shows.is_some_and(|name| name.ident == "Display" || name.ident == "Debug") {
            visit::visit_item_impl(self, item);
        }
    }

    fn visit_block(&mut self, block: &'ast Block) {
        self.statements(block);
        visit::visit_block(self, block);
    }

    fn visit_expr_binary(&mut self, binary: &'ast syn::ExprBinary) {
        self.binary(binary);
        visit::visit_expr_binary(self, binary);
    }

    fn visit_expr_if(&mut self, expr: &'ast syn::ExprIf) {
        self.visit_expr(&expr.cond);
        // What a planted bug does is in no product.
        if !asks_planted(&expr.cond) {
            self.visit_block(&expr.then_branch);
        }
        if let Some((_, other)) = &expr.else_branch {
            self.visit_expr(other);
        }
    }

    fn visit_expr_repeat(&mut self, expr: &'ast syn::ExprRepeat) {
        self.visit_expr(&expr.expr);
    }

    // What the compiler evaluates, and what has no effect.
    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_item_enum(&mut self, _: &'ast syn::ItemEnum) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_trait_item_const(&mut self, _: &'ast syn::TraitItemConst) {}
    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}
    fn visit_generic_argument(&mut self, _: &'ast syn::GenericArgument) {}
    fn visit_generics(&mut self, _: &'ast syn::Generics) {}
    fn visit_type(&mut self, _: &'ast syn::Type) {}
    fn visit_pat(&mut self, _: &'ast syn::Pat) {}
    fn visit_attribute(&mut self, _: &'ast Attribute) {}
}

/// Source code in one line.
pub fn one_line(code: &str) -> String {
    let lines = code.lines().map(|line| line.trim().split_once("// ").map_or(line.trim(), |(code, _)| code.trim()));
    lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let is_cfg = attribute.path().is_ident("cfg");
        attribute.path().is_ident("test")
            || is_cfg && attribute.parse_args::<syn::Path>().is_ok_and(|condition| condition.is_ident("test"))
    })
}

fn has_let(expr: &Expr) -> bool {
    match expr {
        Expr::Let(_) => true,
        Expr::Binary(binary) => has_let(&binary.left) || has_let(&binary.right),
        _ => false,
    }
}

/// Whether a condition holds only if a mutant is planted, or asks for the opposite.
fn asks_planted(expr: &Expr) -> bool {
    match expr {
        Expr::Call(call) => matches!(&*call.func, Expr::Path(path) if path.path.is_ident("planted")),
        Expr::Binary(binary) if matches!(binary.op, BinOp::And(_)) => {
            asks_planted(&binary.left) || asks_planted(&binary.right)
        }
        _ => false,
    }
}

/// The call or assignment of a statement, without `?` and `.await`.
fn peel(expr: &Expr) -> &Expr {
    match expr {
        Expr::Try(inner) => peel(&inner.expr),
        Expr::Await(inner) => peel(&inner.base),
        Expr::Paren(inner) => peel(&inner.expr),
        expr => expr,
    }
}

/// Whether a statement does something that can be left out. Marks only count.
fn is_deletable(expr: &Expr) -> bool {
    match peel(expr) {
        Expr::MethodCall(call) => call.method != "mark",
        Expr::Call(_) | Expr::Assign(_) => true,
        Expr::Binary(binary) => matches!(
            binary.op,
            BinOp::AddAssign(_)
                | BinOp::SubAssign(_)
                | BinOp::MulAssign(_)
                | BinOp::DivAssign(_)
                | BinOp::RemAssign(_)
                | BinOp::BitXorAssign(_)
                | BinOp::BitAndAssign(_)
                | BinOp::BitOrAssign(_)
                | BinOp::ShlAssign(_)
                | BinOp::ShrAssign(_)
        ),
        _ => false,
    }
}

/// Whether a statement does nothing but push requests.
fn pushes(statement: &Stmt) -> bool {
    match statement {
        Stmt::Expr(expr, semicolon) => pushes_in(expr, semicolon.is_some()),
        Stmt::Local(local) => {
            let is_plain =
                matches!(&local.pat, syn::Pat::Ident(name) if name.mutability.is_none() && name.by_ref.is_none());
            is_plain
                && local.attrs.is_empty()
                && local.init.as_ref().is_some_and(|init| init.diverge.is_none() && pushes_in(&init.expr, true))
        }
        _ => false,
    }
}

fn pushes_in(expr: &Expr, ends: bool) -> bool {
    let is_push = |name: &syn::Ident| {
        let name = name.to_string();
        name == "push" || name.starts_with("push_")
    };
    match expr {
        Expr::Try(inner) => pushes_in(&inner.expr, ends),
        Expr::MethodCall(call) => ends && is_push(&call.method),
        Expr::Call(call) => {
            let Expr::Path(path) = &*call.func else { return false };
            ends && path.path.segments.last().is_some_and(|name| is_push(&name.ident))
        }
        Expr::If(branch) => {
            branch.else_branch.is_none()
                && !branch.then_branch.stmts.is_empty()
                && branch.then_branch.stmts.iter().all(pushes)
        }
        Expr::ForLoop(round) => !round.body.stmts.is_empty() && round.body.stmts.iter().all(pushes),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mutated(body: &str) -> (Vec<(Kind, String)>, String) {
        let text = format!("fn f() {{ {body} }}");
        let source = Source::read("a.rs", text, 1).unwrap();
        let kinds = source.points.iter().map(|point| (point.key.kind, point.key.code.clone())).collect();
        let text = source.mutate(&BTreeSet::new()).text;
        syn::parse_file(&text).unwrap();
        (kinds, text)
    }

    fn kinds(body: &str) -> Vec<Kind> {
        let mut kinds: Vec<Kind> = mutated(body).0.into_iter().map(|(kind, _)| kind).collect();
        kinds.sort_unstable();
        kinds
    }

    #[test]
    fn points_may_lie_in_one_another() {
        assert_eq!(kinds("g(a < b + 1 && c != d);"), {
            [Kind::Comparison, Kind::Boundary, Kind::Boundary, Kind::Connective, Kind::Deleted]
        });
        let (_, text) = mutated("if a < b { c(); }");
        assert!(
            text.contains("*mutate_l <= *mutate_r") && text.contains("if !crate::mutate::on(2) { c(); }"),
            "{text}"
        );
    }

    #[test]
    fn what_the_compiler_evaluates_or_a_planted_bug_does_is_left_alone() {
        assert_eq!(kinds("const A: bool = 1 < 2; let b = [0; 1 + 1]; assert!(a < b);"), []);
        assert_eq!(kinds("if planted(M) { a(); } if b && planted(M) { c(); } else { d(); }"), [Kind::Deleted]);
        assert_eq!(kinds("if let Some(a) = b && c { return; }"), []);
        let text =
            "#[cfg(test)] mod t { fn f() { a(); } } const fn g() { a(); } impl fmt::Debug for A { fn fmt() { a(); } }";
        assert!(Source::read("a.rs", text.to_owned(), 1).unwrap().points.is_empty());
    }

    #[test]
    fn pushes_that_follow_one_another_are_swapped() {
        let (points, text) = mutated("let a = p.push(x); if c { p.push(y); } p.push_z()?; q();");
        let swapped: Vec<_> = points.iter().filter(|(kind, _)| *kind == Kind::Swapped).map(|(_, code)| code).collect();
        assert_eq!(swapped, ["let a = p.push(x); / if c { p.push(y); }", "if c { p.push(y); } / p.push_z()?;"]);
        assert!(
            text.contains("let a; if crate::mutate::on(3) { if c { p.push(y); } a = p.push(x); p.push_z()?; }"),
            "{text}"
        );
    }

    #[test]
    fn an_error_is_blamed_on_the_innermost_point() {
        let source = Source::read("a.rs", "fn f() { g(a < b); }".to_owned(), 1).unwrap();
        let mutated = source.mutate(&BTreeSet::new());
        let at = mutated.text.find("<=").unwrap();
        let inner = source.points.iter().find(|point| point.key.kind == Kind::Boundary).unwrap().number;
        let spans = [(at..at + 2, true)];
        assert_eq!(source.blamed(&mutated, &spans, &BTreeSet::new()), BTreeSet::from([inner]));
        let dropped = BTreeSet::from([inner]);
        assert!(!source.mutate(&dropped).text.contains("<="));
    }
}
