//! Counts over Rust files, without their tests: what makes code slow to read, each as a place.

use std::fmt::Write as _;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use proc_macro2::{Span, TokenStream, TokenTree};
use serde::Deserialize;
use syn::spanned::Spanned as _;
use syn::visit::Visit;

use super::words::is_vague;
use crate::imports::is_for_tests;

/// A line may have this many columns.
const COLUMNS: usize = 100;

/// A function may have this many lines, from its signature to its last brace.
const LINES: usize = 100;

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Measure {
    /// `let f = |…| …`, where a named function says what it does.
    BoundClosures,
    /// A `match` on one bool, which is an `if`.
    MatchesOnBool,
    /// A `let` that gives a name another meaning while the first one is in scope.
    ReboundNames,
    /// A parameter of a function or a closure that is a tuple, whose parts have no names of their
    /// own.
    TupleParameters,
    /// A function whose whole name is a word that says nothing (`words.rs`).
    VagueNames,
    /// A function of more than 100 lines.
    LongFunctions,
    /// A line of code or of a comment over 100 columns, string literals and rows of tables aside.
    LongLines,
}

impl Measure {
    pub(crate) const ALL: [Self; 7] = [
        Self::BoundClosures,
        Self::MatchesOnBool,
        Self::ReboundNames,
        Self::TupleParameters,
        Self::VagueNames,
        Self::LongFunctions,
        Self::LongLines,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::BoundClosures => "bound-closures",
            Self::MatchesOnBool => "matches-on-bool",
            Self::ReboundNames => "rebound-names",
            Self::TupleParameters => "tuple-parameters",
            Self::VagueNames => "vague-names",
            Self::LongFunctions => "long-functions",
            Self::LongLines => "long-lines",
        }
    }
}

/// One place that counts.
pub(crate) struct Place {
    pub(crate) measure: Measure,
    pub(crate) file: PathBuf,
    pub(crate) line: usize,
    pub(crate) what: String,
}

/// What was counted in the files of a folder.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) lines: usize,
    /// Lines that are neither blank nor comments.
    pub(crate) lines_of_code: usize,
    pub(crate) functions: usize,
    pub(crate) places: Vec<Place>,
}

impl Counts {
    /// Of all Rust files below the folder. Those of tests, benches, examples and builds are left
    /// out.
    pub(crate) fn of_folder(root: &Path) -> Self {
        let mut counts = Self::default();
        let mut open = vec![root.to_owned()];
        while let Some(directory) = open.pop() {
            for entry in std::fs::read_dir(&directory).unwrap() {
                let path = entry.unwrap().path();
                if is_left_out(&path) {
                    continue;
                }
                if path.is_dir() {
                    open.push(path);
                } else if path.extension().is_some_and(|extension| extension == "rs") {
                    let text = std::fs::read_to_string(&path).unwrap();
                    counts.add_file(path.strip_prefix(root).unwrap(), &text);
                }
            }
        }
        counts
            .places
            .sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
        counts
    }

    /// Of one file's text.
    pub(crate) fn add_file(&mut self, file: &Path, text: &str) {
        let tokens: TokenStream = text.parse().unwrap();
        let parsed: syn::File = syn::parse2(tokens.clone())
            .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        if is_for_tests(&parsed.attrs) {
            return;
        }
        let mut visitor = Visitor {
            file,
            functions: 0,
            places: Vec::new(),
            tests: Vec::new(),
            tables: Vec::new(),
            scopes: Vec::new(),
            is_trait_impl: false,
        };
        visitor.visit_file(&parsed);
        let lines = Lines::new(text, tokens);
        for (line, content) in lines.numbered() {
            if visitor.tests.iter().any(|range| range.contains(&line)) {
                continue;
            }
            self.lines += 1;
            self.lines_of_code += usize::from(!content.is_empty() && !is_comment(content));
            let is_row = visitor.tables.iter().any(|range| range.contains(&line));
            if lines.is_long(line, is_row) {
                visitor.places.push(Place {
                    measure: Measure::LongLines,
                    file: file.to_owned(),
                    line,
                    what: content.to_owned(),
                });
            }
        }
        self.functions += visitor.functions;
        self.places.append(&mut visitor.places);
    }

    pub(crate) fn number(&self, measure: Measure) -> usize {
        let places = self.places.iter();
        places.filter(|place| place.measure == measure).count()
    }

    /// A line for each place: measure, file, line, what stands there.
    pub(crate) fn places_as_text(&self) -> String {
        let mut text = String::new();
        for place in &self.places {
            let (measure, file) = (place.measure.name(), place.file.display());
            let _ = writeln!(text, "{measure} {file}:{} {}", place.line, place.what);
        }
        text
    }
}

fn is_left_out(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if path.is_dir() {
        return name.starts_with('.')
            || ["tests", "benches", "examples", "target"].contains(&&*name);
    }
    ["tests.rs", "testing.rs", "testutil.rs", "build.rs"].contains(&&*name)
}

/// The lines of a syntax node, counted from 1.
fn lines_of(span: Span) -> RangeInclusive<usize> {
    span.start().line..=span.end().line
}

struct Visitor<'a> {
    file: &'a Path,
    functions: usize,
    places: Vec<Place>,
    /// Lines that are for tests only.
    tests: Vec<RangeInclusive<usize>>,
    /// Lines of tables: arrays of constants, and calls of macros between items.
    tables: Vec<RangeInclusive<usize>>,
    /// The names that are in scope in the function at hand, a list for each block.
    scopes: Vec<Vec<String>>,
    is_trait_impl: bool,
}

impl Visitor<'_> {
    fn add(&mut self, measure: Measure, span: Span, what: impl Into<String>) {
        self.places.push(Place {
            measure,
            file: self.file.to_owned(),
            line: span.start().line,
            what: what.into(),
        });
    }

    /// Whether the node is for tests, so that it is passed over.
    fn skips(&mut self, attributes: &[syn::Attribute], span: Span) -> bool {
        let skips = is_for_tests(attributes)
            || attributes
                .iter()
                .any(|attribute| attribute.path().is_ident("test"));
        if skips {
            self.tests.push(lines_of(span));
        }
        skips
    }

    fn function(&mut self, signature: &syn::Signature, block: Option<&syn::Block>) {
        self.functions += 1;
        let name = signature.ident.to_string();
        if !self.is_trait_impl && is_vague(&name) {
            self.add(Measure::VagueNames, signature.span(), &*name);
        }
        let mut parameters = Names::default();
        for input in &signature.inputs {
            let syn::FnArg::Typed(input) = input else {
                continue;
            };
            parameters.visit_pat(&input.pat);
            if is_tuple_parameter(&input.pat) || is_tuple_type(&input.ty) {
                self.add(Measure::TupleParameters, input.span(), &*name);
            }
        }
        let Some(block) = block else { return };
        // (without attributes and documentation)
        let first = signature.span().start().line;
        let length = block.span().end().line - first + 1;
        if length > LINES {
            let what = format!("{name}: {length} lines");
            self.add(Measure::LongFunctions, signature.span(), what);
        }
        let outer = std::mem::replace(&mut self.scopes, vec![parameters.0]);
        self.visit_block(block);
        self.scopes = outer;
    }

    /// Goes on in a scope of its own, with the names of a pattern.
    fn scope(&mut self, pattern: Option<&syn::Pat>, visit: impl FnOnce(&mut Self)) {
        self.scopes.push(pattern.map_or_else(Vec::new, names));
        visit(self);
        self.scopes.pop();
    }

    fn bind(&mut self, names: Vec<String>) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.extend(names);
        }
    }
}

/// Collects the names that a pattern binds.
#[derive(Default)]
struct Names(Vec<String>);

impl<'ast> Visit<'ast> for Names {
    fn visit_pat_ident(&mut self, pattern: &'ast syn::PatIdent) {
        let name = pattern.ident.to_string();
        // A constant or a variant is compared, not bound.
        if !name.starts_with(char::is_uppercase) {
            self.0.push(name);
        }
        syn::visit::visit_pat_ident(self, pattern);
    }
}

fn names(pattern: &syn::Pat) -> Vec<String> {
    let mut names = Names::default();
    names.visit_pat(pattern);
    names.0
}

fn is_tuple_parameter(pattern: &syn::Pat) -> bool {
    match pattern {
        syn::Pat::Tuple(_) => true,
        syn::Pat::Reference(inner) => is_tuple_parameter(&inner.pat),
        syn::Pat::Paren(inner) => is_tuple_parameter(&inner.pat),
        syn::Pat::Type(inner) => is_tuple_parameter(&inner.pat) || is_tuple_type(&inner.ty),
        _ => false,
    }
}

fn is_tuple_type(kind: &syn::Type) -> bool {
    match kind {
        syn::Type::Tuple(tuple) => !tuple.elems.is_empty(),
        syn::Type::Reference(inner) => is_tuple_type(&inner.elem),
        syn::Type::Paren(inner) => is_tuple_type(&inner.elem),
        syn::Type::Slice(inner) => is_tuple_type(&inner.elem),
        _ => false,
    }
}

fn is_closure(value: &syn::Expr) -> bool {
    match value {
        syn::Expr::Closure(_) => true,
        syn::Expr::Reference(inner) => is_closure(&inner.expr),
        syn::Expr::Paren(inner) => is_closure(&inner.expr),
        _ => false,
    }
}

fn is_bool(pattern: &syn::Pat) -> bool {
    matches!(pattern, syn::Pat::Lit(literal) if matches!(literal.lit, syn::Lit::Bool(_)))
}

fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Static(item) => &item.attrs,
        syn::Item::Trait(item) => &item.attrs,
        syn::Item::Macro(item) => &item.attrs,
        _ => &[],
    }
}

impl<'ast> Visit<'ast> for Visitor<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if self.skips(attributes(item), item.span()) {
            return;
        }
        if matches!(
            item,
            syn::Item::Const(_) | syn::Item::Static(_) | syn::Item::Macro(_)
        ) {
            self.tables.push(lines_of(item.span()));
        }
        syn::visit::visit_item(self, item);
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        let is_trait_impl = std::mem::replace(&mut self.is_trait_impl, false);
        self.function(&item.sig, Some(&item.block));
        self.is_trait_impl = is_trait_impl;
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let outer = std::mem::replace(&mut self.is_trait_impl, item.trait_.is_some());
        syn::visit::visit_item_impl(self, item);
        self.is_trait_impl = outer;
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !self.skips(&item.attrs, item.span()) {
            self.function(&item.sig, Some(&item.block));
        }
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if !self.skips(&item.attrs, item.span()) {
            self.function(&item.sig, item.default.as_ref());
        }
    }

    fn visit_block(&mut self, block: &'ast syn::Block) {
        self.scope(None, |visitor| syn::visit::visit_block(visitor, block));
    }

    fn visit_local(&mut self, local: &'ast syn::Local) {
        if let Some(init) = &local.init {
            if is_closure(&init.expr) {
                let what = names(&local.pat).join(", ");
                self.add(Measure::BoundClosures, local.span(), what);
            }
            self.visit_local_init(init);
        }
        let names = names(&local.pat);
        for name in &names {
            if self.scopes.iter().flatten().any(|bound| bound == name) {
                self.add(Measure::ReboundNames, local.span(), &**name);
            }
        }
        self.bind(names);
    }

    fn visit_expr_closure(&mut self, closure: &'ast syn::ExprClosure) {
        self.scope(None, |visitor| {
            for input in &closure.inputs {
                if is_tuple_parameter(input) {
                    visitor.add(Measure::TupleParameters, input.span(), "closure");
                }
                visitor.bind(names(input));
            }
            visitor.visit_expr(&closure.body);
        });
    }

    fn visit_expr_match(&mut self, expression: &'ast syn::ExprMatch) {
        if expression.arms.iter().any(|arm| is_bool(&arm.pat)) {
            self.add(Measure::MatchesOnBool, expression.span(), "match");
        }
        syn::visit::visit_expr_match(self, expression);
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        self.scope(Some(&arm.pat), |visitor| {
            if let Some((_, guard)) = &arm.guard {
                visitor.visit_expr(guard);
            }
            visitor.visit_expr(&arm.body);
        });
    }

    fn visit_expr_let(&mut self, expression: &'ast syn::ExprLet) {
        self.visit_expr(&expression.expr);
        self.bind(names(&expression.pat));
    }

    fn visit_expr_if(&mut self, expression: &'ast syn::ExprIf) {
        self.scope(None, |visitor| {
            visitor.visit_expr(&expression.cond);
            visitor.visit_block(&expression.then_branch);
        });
        if let Some((_, other)) = &expression.else_branch {
            self.visit_expr(other);
        }
    }

    fn visit_expr_while(&mut self, expression: &'ast syn::ExprWhile) {
        self.scope(None, |visitor| {
            visitor.visit_expr(&expression.cond);
            visitor.visit_block(&expression.body);
        });
    }

    fn visit_expr_for_loop(&mut self, expression: &'ast syn::ExprForLoop) {
        self.visit_expr(&expression.expr);
        self.scope(Some(&expression.pat), |visitor| {
            visitor.visit_block(&expression.body);
        });
    }

    /// The arguments of a macro's call, where they are expressions or statements.
    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        type Arguments = syn::punctuated::Punctuated<syn::Expr, syn::Token![,]>;
        if let Ok(arguments) = call.parse_body_with(Arguments::parse_terminated) {
            for argument in &arguments {
                // (a syntax tree of its own: what it holds is counted like the rest)
                Visit::visit_expr(self, argument);
            }
        } else if let Ok(statements) = call.parse_body_with(syn::Block::parse_within) {
            self.scope(None, |visitor| {
                for statement in &statements {
                    visitor.visit_stmt(statement);
                }
            });
        }
    }
}

fn is_comment(line: &str) -> bool {
    line.starts_with("//")
}

/// The lines of a file, and how wide they are.
struct Lines<'a> {
    contents: Vec<&'a str>,
    widths: Vec<usize>,
    /// The columns that string literals take.
    literals: Vec<usize>,
}

impl<'a> Lines<'a> {
    fn new(text: &'a str, tokens: TokenStream) -> Self {
        let contents: Vec<&str> = text.lines().collect();
        let mut lines = Lines {
            widths: contents.iter().map(|line| line.chars().count()).collect(),
            literals: vec![0; contents.len()],
            contents,
        };
        lines.add_literals(tokens);
        lines
    }

    /// Each line with its number, without the blanks around it.
    fn numbered(&self) -> impl Iterator<Item = (usize, &'a str)> {
        let numbers = 1..=self.contents.len();
        numbers.zip(self.contents.iter().map(|line| line.trim()))
    }

    fn is_long(&self, line: usize, is_row: bool) -> bool {
        let content = self.contents[line - 1].trim();
        let columns = self.widths[line - 1];
        if is_comment(content) {
            // A row of a table and a link cannot be broken.
            let words = content.trim_start_matches(['/', '!']).trim_start();
            return columns > COLUMNS && !words.starts_with('|') && !words.contains("://");
        }
        !is_row && columns - self.literals[line - 1] > COLUMNS
    }

    fn add_literals(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Group(group) => self.add_literals(group.stream()),
                TokenTree::Literal(literal) if is_string(&literal) => {
                    self.add_literal(literal.span())
                }
                _ => {}
            }
        }
    }

    /// A literal can have several lines: each has its part.
    fn add_literal(&mut self, span: Span) {
        let (start, end) = (span.start(), span.end());
        for line in start.line..=end.line {
            let from = if line == start.line { start.column } else { 0 };
            let width = self.widths[line - 1];
            let to = if line == end.line { end.column } else { width };
            self.literals[line - 1] += to - from;
        }
    }
}

fn is_string(literal: &proc_macro2::Literal) -> bool {
    let written = literal.to_string();
    written
        .trim_start_matches(['b', 'c', 'r', '#'])
        .starts_with('"')
}
