//! Types a condition against the schema: what does not fit is refused before anything is judged.

use std::ops::Range;

use super::condition::{Condition, NamedOperand, Node, Operand};
use super::diagnostic::{Complaint, nearest};
use super::lexer::Comparison;
use super::names::Names;
use super::parser::{Tree, TreeNode, parse};
use crate::fact::{Type, Value};

/// Parses and types a condition.
pub(super) fn condition(text: &str, names: Names<'_>) -> Result<Condition, Complaint> {
    let tree = parse(text)?;
    let mut typer = Typer {
        names,
        text,
        named: Vec::with_capacity(8),
    };
    let node = typer.condition(&tree)?;
    Ok(Condition {
        node,
        named: typer.named.into(),
        text: text.into(),
    })
}

struct Typer<'a> {
    names: Names<'a>,
    text: &'a str,
    named: Vec<NamedOperand>,
}

/// An operand with its type.
struct TypedOperand {
    operand: Operand,
    ty: Type,
    /// Whether it is the same for every instance.
    constant: bool,
}

impl Typer<'_> {
    fn written(&self, tree: &Tree<'_>) -> &str {
        &self.text[tree.span.clone()]
    }

    fn condition(&mut self, tree: &Tree<'_>) -> Result<Node, Complaint> {
        match &tree.node {
            TreeNode::Not(inner) => Ok(Node::Not(Box::new(self.condition(inner)?))),
            TreeNode::All(parts) => Ok(Node::All(self.conditions(parts)?)),
            TreeNode::Any(parts) => Ok(Node::Any(self.conditions(parts)?)),
            TreeNode::Compare(sides, comparison) => self.compare(tree, sides, *comparison),
            TreeNode::In(sides) => self.membership(sides),
            TreeNode::Name(_) => {
                let typed = self.operand(tree)?;
                match typed.ty {
                    Type::Bool if !typed.constant => Ok(Node::Holds(typed.operand)),
                    ty => Err(self.no_condition(tree, &typed.operand, ty)),
                }
            }
            TreeNode::Literal(Value::Bool(_)) => {
                let help = "leave it out; without `applies` a check applies to every instance";
                Err(constant(tree).help(help.to_owned()))
            }
            _ => {
                let wrong = self.wrong(tree, "is not a condition");
                Err(wrong.help("compare it with a fact".to_owned()))
            }
        }
    }

    /// A complaint about what is written there.
    fn wrong(&self, tree: &Tree<'_>, what: &str) -> Complaint {
        let message = format!("`{}` {what}", self.written(tree));
        Complaint::new(tree.span.clone(), message)
    }

    fn conditions(&mut self, parts: &[Tree<'_>]) -> Result<Box<[Node]>, Complaint> {
        parts.iter().map(|part| self.condition(part)).collect()
    }

    /// A fact that is neither true nor false stands alone.
    fn no_condition(&self, tree: &Tree<'_>, operand: &Operand, ty: Type) -> Complaint {
        let name = self.written(tree);
        let example = match (operand, ty) {
            (Operand::Limit(_), _) => "a fact".to_owned(),
            (_, Type::Word(_)) => format!("a word: `{name} == \"{}\"`", sample(ty)),
            (_, Type::Text) => format!("a text: `{name} == \"\"`"),
            (_, Type::Texts) => format!("a text: `\"\" in {name}`"),
            (_, Type::Counts) => format!("a number: `3 in {name}`"),
            (_, Type::Count) => format!("a number: `{name} > 0`"),
            _ => format!("a quantity: `{name} > {}`", sample(ty)),
        };
        self.wrong(tree, "is not a condition")
            .label(format!("it is {ty}"))
            .help(format!("compare it with {example}"))
    }

    fn name(&mut self, named: NamedOperand) {
        if !self.named.contains(&named) {
            self.named.push(named);
        }
    }

    fn operand(&mut self, tree: &Tree<'_>) -> Result<TypedOperand, Complaint> {
        let constant = |value: Value, ty| TypedOperand {
            operand: Operand::Literal(value),
            ty,
            constant: true,
        };
        match &tree.node {
            TreeNode::Name(name) => match name.strip_prefix("limit.") {
                Some(limit) => {
                    let index = self.names.limit(limit, &tree.span)?;
                    self.name(NamedOperand::Limit(index));
                    Ok(TypedOperand {
                        operand: Operand::Limit(index),
                        ty: type_of(&self.names.limits[usize::from(index)].1),
                        constant: true,
                    })
                }
                None => {
                    let (slot, schema) = self.names.fact(name, &tree.span)?;
                    self.name(NamedOperand::Fact(slot));
                    Ok(TypedOperand {
                        operand: Operand::Fact(slot),
                        ty: schema.ty,
                        constant: false,
                    })
                }
            },
            TreeNode::Literal(value) => Ok(constant(value.clone(), type_of(value))),
            TreeNode::Text(text) => Ok(constant(Value::Text((**text).into()), Type::Text)),
            TreeNode::Least(sides) => self.extreme(tree, sides, Operand::Least),
            TreeNode::Most(sides) => self.extreme(tree, sides, Operand::Most),
            TreeNode::List(_) => Err(Complaint::new(
                tree.span.clone(),
                "a list can stand only behind `in`",
            )),
            _ => Err(
                Complaint::new(tree.span.clone(), "a condition cannot be compared")
                    .help("use `and`, `or` and `not`".to_owned()),
            ),
        }
    }

    fn extreme(
        &mut self,
        tree: &Tree<'_>,
        sides: &[Tree<'_>; 2],
        make: fn(Box<[Operand; 2]>) -> Operand,
    ) -> Result<TypedOperand, Complaint> {
        let first = self.operand(&sides[0])?;
        let second = self.operand(&sides[1])?;
        if first.ty != second.ty {
            return Err(self.unlike(tree.span.clone(), (&sides[0], &first), (&sides[1], &second)));
        }
        self.ordered(&sides[0], first.ty)?;
        Ok(TypedOperand {
            operand: make(Box::new([first.operand, second.operand])),
            ty: first.ty,
            constant: first.constant && second.constant,
        })
    }

    fn ordered(&self, tree: &Tree<'_>, ty: Type) -> Result<(), Complaint> {
        if ty.is_ordered() {
            return Ok(());
        }
        let wrong = self.wrong(tree, "has no order");
        Err(wrong
            .label(format!("it is {ty}"))
            .help("compare it with `==`, `!=` or `in`".to_owned()))
    }

    fn compare(
        &mut self,
        tree: &Tree<'_>,
        sides: &[Tree<'_>; 2],
        comparison: Comparison,
    ) -> Result<Node, Complaint> {
        let mut left = self.operand(&sides[0])?;
        let mut right = self.operand(&sides[1])?;
        if left.constant && right.constant {
            return Err(constant(tree).help("compare a fact".to_owned()));
        }
        self.as_word(&sides[1], &mut right, left.ty)?;
        self.as_word(&sides[0], &mut left, right.ty)?;
        if !left.ty.is_comparable_with(right.ty) {
            return Err(self.unlike(tree.span.clone(), (&sides[0], &left), (&sides[1], &right)));
        }
        if comparison.is_order() {
            self.ordered(&sides[0], left.ty)?;
            self.ordered(&sides[1], right.ty)?;
        }
        Ok(Node::Compare(left.operand, comparison, right.operand))
    }

    /// A text that is compared with a word becomes one of its words.
    fn as_word(
        &self,
        tree: &Tree<'_>,
        typed: &mut TypedOperand,
        other: Type,
    ) -> Result<(), Complaint> {
        if let (Type::Word(words), Operand::Literal(Value::Text(text))) = (other, &typed.operand) {
            typed.operand = Operand::Literal(word(text, words, &tree.span)?);
            typed.ty = other;
        }
        Ok(())
    }

    fn membership(&mut self, sides: &[Tree<'_>; 2]) -> Result<Node, Complaint> {
        let item = self.operand(&sides[0])?;
        let TreeNode::List(elements) = &sides[1].node else {
            return self.among(sides, item);
        };
        if item.constant {
            return Err(constant(&sides[0]));
        }
        if elements.is_empty() {
            return Err(Complaint::new(
                sides[1].span.clone(),
                "nothing is in an empty list",
            ));
        }
        if matches!(item.ty, Type::Texts | Type::Counts) {
            let wrong = self.wrong(&sides[0], "is itself a list");
            return Err(wrong.help(format!("write `\"…\" in {}`", self.written(&sides[0]))));
        }
        let mut values = Vec::with_capacity(elements.len());
        for element in elements {
            let mut typed = self.operand(element)?;
            self.as_word(element, &mut typed, item.ty)?;
            if !item.ty.is_comparable_with(typed.ty) {
                return Err(self.unlike(
                    element.span.clone(),
                    (&sides[0], &item),
                    (element, &typed),
                ));
            }
            match typed.operand {
                Operand::Literal(value) => values.push(value),
                _ => {
                    return Err(
                        Complaint::new(element.span.clone(), "a list holds literals only")
                            .help("join comparisons with `or`".to_owned()),
                    );
                }
            }
        }
        Ok(Node::OneOf(item.operand, values.into()))
    }

    /// `text in fact`, if the fact is a list of texts.
    fn among(&mut self, sides: &[Tree<'_>; 2], item: TypedOperand) -> Result<Node, Complaint> {
        let list = self.operand(&sides[1])?;
        let element = match list.ty {
            Type::Texts => Type::Text,
            Type::Counts => Type::Count,
            _ => {
                let help = "write the list between `[` and `]`, or `==` for one value";
                let wrong = self.wrong(&sides[1], "is not a list");
                return Err(wrong
                    .label(format!("it is {}", list.ty))
                    .help(help.to_owned()));
            }
        };
        if !element.is_comparable_with(item.ty) {
            let what = match element {
                Type::Text => "is not text",
                _ => "is not a number",
            };
            let wrong = self.wrong(&sides[0], what);
            return Err(wrong.label(format!("it is {}", item.ty)));
        }
        if item.constant && list.constant {
            return Err(constant(&sides[0]));
        }
        Ok(Node::Among(item.operand, list.operand))
    }

    /// Two operands whose types do not fit.
    fn unlike(
        &self,
        span: Range<usize>,
        (left, a): (&Tree<'_>, &TypedOperand),
        (right, b): (&Tree<'_>, &TypedOperand),
    ) -> Complaint {
        let number = |tree: &Tree<'_>, ty, other: Type| match (&tree.node, ty) {
            (TreeNode::Literal(Value::Count(n)), Type::Count) if other.is_ordered() => {
                Some(format!("write its unit: `{n} {}`", base_unit(other)?))
            }
            _ => None,
        };
        let help = number(left, a.ty, b.ty).or_else(|| number(right, b.ty, a.ty));
        let (left, right) = (self.written(left), self.written(right));
        Complaint::new(span, format!("`{left}` and `{right}` cannot be compared"))
            .label(format!("`{left}` is {}; `{right}` is {}", a.ty, b.ty))
            .help(help)
    }
}

/// What is the same for every instance.
fn constant(tree: &Tree<'_>) -> Complaint {
    Complaint::new(tree.span.clone(), "a constant decides nothing")
}

/// The word of a schema that a text names.
pub(super) fn word(
    text: &str,
    words: &'static [&'static str],
    span: &Range<usize>,
) -> Result<Value, Complaint> {
    if let Some(word) = words.iter().find(|word| **word == text) {
        return Ok(Value::Word(word));
    }
    let near = nearest(text, words.iter().copied());
    Err(
        Complaint::new(span.clone(), format!("`{text}` is none of the words"))
            .label(format!("the words are {}", words.join(", ")))
            .help(near.map(|near| format!("write `\"{near}\"`"))),
    )
}

/// The type of a literal.
pub(super) fn type_of(value: &Value) -> Type {
    match value {
        Value::Bool(_) => Type::Bool,
        Value::Count(_) => Type::Count,
        Value::BitRate(_) => Type::BitRate,
        Value::Bytes(_) => Type::Bytes,
        Value::Seconds(_) => Type::Seconds,
        Value::PerSecond(_) => Type::PerSecond,
        Value::Percent(_) => Type::Percent,
        // No literal is a word until it meets the fact whose word it is.
        Value::Text(_) | Value::Word(_) | Value::Sentence(_) => Type::Text,
        Value::Texts(_) => Type::Texts,
        Value::Counts(_) => Type::Counts,
    }
}

fn base_unit(ty: Type) -> Option<&'static str> {
    Some(match ty {
        Type::BitRate => "Gb/s",
        Type::Bytes => "B",
        Type::Seconds => "s",
        Type::PerSecond => "/s",
        Type::Percent => "%",
        _ => return None,
    })
}

/// A value of the type, as it is written.
pub(super) fn sample(ty: Type) -> &'static str {
    match ty {
        Type::Bool => "true",
        Type::Count => "1",
        Type::BitRate => "400 Gb/s",
        Type::Bytes => "4096 B",
        Type::Seconds => "2 h",
        Type::PerSecond => "1 /s",
        Type::Percent => "10 %",
        Type::Text => "\"text\"",
        Type::Texts => "[\"text\"]",
        Type::Counts => "[1, 2]",
        Type::Word(words) => words.first().copied().unwrap_or(""),
    }
}
