//! From a condition's text to its tree.
//!
//! ```text
//! or         = and ("or" and)*
//! and        = not ("and" not)*
//! not        = "not" not | comparison
//! comparison = operand (("==" | "!=" | "<" | "<=" | ">" | ">=" | "in") operand)?
//! operand    = name | literal | text | "[" text,* "]" | ("min" | "max") "(" operand "," operand ")" | "(" or ")"
//! ```

use std::borrow::Cow;
use std::ops::Range;

use super::diagnostic::Complaint;
use super::lexer::{Comparison, Lexer, Token};
use crate::fact::Value;

/// How deep a condition can be nested: far beyond what anyone reads, far below what a stack holds.
const DEEPEST: usize = 64;

/// A part of a condition.
#[derive(Debug)]
pub(super) struct Tree<'a> {
    pub(super) node: TreeNode<'a>,
    pub(super) span: Range<usize>,
}

/// What a part of a condition is.
#[derive(Debug)]
pub(super) enum TreeNode<'a> {
    Name(&'a str),
    Literal(Value),
    Text(Cow<'a, str>),
    List(Vec<Tree<'a>>),
    Not(Box<Tree<'a>>),
    All(Vec<Tree<'a>>),
    Any(Vec<Tree<'a>>),
    Compare(Box<[Tree<'a>; 2]>, Comparison),
    In(Box<[Tree<'a>; 2]>),
    Least(Box<[Tree<'a>; 2]>),
    Most(Box<[Tree<'a>; 2]>),
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    token: Token<'a>,
    span: Range<usize>,
    depth: usize,
}

/// Parses a whole condition.
pub(super) fn parse(text: &str) -> Result<Tree<'_>, Complaint> {
    let mut lexer = Lexer::new(text);
    let (token, span) = lexer.next()?;
    let mut parser = Parser {
        lexer,
        token,
        span,
        depth: 0,
    };
    if parser.token == Token::End {
        return Err(Complaint::new(0..text.len(), "the condition is empty"));
    }
    let tree = parser.or()?;
    match parser.token {
        Token::End => Ok(tree),
        _ => Err(parser.behind(&tree)),
    }
}

impl<'a> Parser<'a> {
    fn advance(&mut self) -> Result<(Token<'a>, Range<usize>), Complaint> {
        let (token, span) = self.lexer.next()?;
        Ok((
            std::mem::replace(&mut self.token, token),
            std::mem::replace(&mut self.span, span),
        ))
    }

    fn or(&mut self) -> Result<Tree<'a>, Complaint> {
        self.several(&Token::Or, TreeNode::Any, Self::and)
    }

    fn and(&mut self) -> Result<Tree<'a>, Complaint> {
        self.several(&Token::And, TreeNode::All, Self::not)
    }

    fn several(
        &mut self,
        between: &Token<'_>,
        node: fn(Vec<Tree<'a>>) -> TreeNode<'a>,
        part: fn(&mut Self) -> Result<Tree<'a>, Complaint>,
    ) -> Result<Tree<'a>, Complaint> {
        let first = part(self)?;
        if self.token != *between {
            return Ok(first);
        }
        let start = first.span.start;
        let mut parts = vec![first];
        let mut end = start;
        while self.token == *between {
            self.advance()?;
            let next = part(self)?;
            end = next.span.end;
            parts.push(next);
        }
        Ok(Tree {
            node: node(parts),
            span: start..end,
        })
    }

    /// Goes one level down, and up again behind it.
    fn deeper<T>(
        &mut self,
        inner: impl FnOnce(&mut Self) -> Result<T, Complaint>,
    ) -> Result<T, Complaint> {
        if self.depth == DEEPEST {
            return Err(Complaint::new(
                self.span.clone(),
                format!("the condition is nested deeper than {DEEPEST} levels"),
            ));
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }

    fn not(&mut self) -> Result<Tree<'a>, Complaint> {
        if self.token != Token::Not {
            return self.comparison();
        }
        let (_, span) = self.advance()?;
        let inner = self.deeper(Self::not)?;
        Ok(Tree {
            span: span.start..inner.span.end,
            node: TreeNode::Not(Box::new(inner)),
        })
    }

    fn comparison(&mut self) -> Result<Tree<'a>, Complaint> {
        let left = self.operand()?;
        let comparison = match &self.token {
            Token::Compare(comparison) => Some(*comparison),
            Token::In => None,
            _ => return Ok(left),
        };
        self.advance()?;
        let right = self.operand()?;
        if matches!(self.token, Token::Compare(_) | Token::In) {
            return Err(
                Complaint::new(self.span.clone(), "comparisons cannot be chained")
                    .help("join two comparisons with `and`".to_owned()),
            );
        }
        let span = left.span.start..right.span.end;
        let sides = Box::new([left, right]);
        let node = match comparison {
            Some(comparison) => TreeNode::Compare(sides, comparison),
            None => TreeNode::In(sides),
        };
        Ok(Tree { node, span })
    }

    fn operand(&mut self) -> Result<Tree<'a>, Complaint> {
        let (token, span) = self.advance()?;
        let node = match token {
            Token::Name(name) => TreeNode::Name(name),
            Token::Literal(value) => TreeNode::Literal(value),
            Token::Text(text) => TreeNode::Text(text),
            Token::Open => {
                let inner = self.deeper(Self::or)?;
                self.close(&Token::Close, &span)?;
                return Ok(inner);
            }
            Token::ListOpen => return self.list(span),
            Token::Min => return self.extreme(span, TreeNode::Least),
            Token::Max => return self.extreme(span, TreeNode::Most),
            Token::Not => {
                return Err(Complaint::new(span, "`not` cannot stand here").help(
                    "write it before the whole comparison: `not port.state in [\"active\"]`"
                        .to_owned(),
                ));
            }
            other => {
                return Err(Complaint::new(
                    span,
                    format!(
                        "a fact, a literal or `(` is expected, not {}",
                        other.describe()
                    ),
                ));
            }
        };
        Ok(Tree { node, span })
    }

    fn list(&mut self, open: Range<usize>) -> Result<Tree<'a>, Complaint> {
        let mut items = Vec::new();
        while self.token != Token::ListClose {
            items.push(self.deeper(Self::operand)?);
            if self.token != Token::Comma {
                break;
            }
            self.advance()?;
        }
        let end = self.close(&Token::ListClose, &open)?;
        Ok(Tree {
            node: TreeNode::List(items),
            span: open.start..end,
        })
    }

    fn extreme(
        &mut self,
        name: Range<usize>,
        node: fn(Box<[Tree<'a>; 2]>) -> TreeNode<'a>,
    ) -> Result<Tree<'a>, Complaint> {
        let open = self.span.clone();
        self.close(&Token::Open, &name)?;
        let first = self.deeper(Self::operand)?;
        self.close(&Token::Comma, &open)?;
        let second = self.deeper(Self::operand)?;
        let end = self.close(&Token::Close, &open)?;
        Ok(Tree {
            node: node(Box::new([first, second])),
            span: name.start..end,
        })
    }

    /// Expects a mark; says where what it belongs to began.
    fn close(&mut self, mark: &Token<'_>, began: &Range<usize>) -> Result<usize, Complaint> {
        if self.token == *mark {
            return Ok(self.advance()?.1.end);
        }
        let found = self.token.describe();
        let span = match self.token {
            Token::End => began.clone(),
            _ => self.span.clone(),
        };
        Err(Complaint::new(
            span,
            format!("{} is expected, not {found}", mark.describe()),
        ))
    }

    /// Something is behind a condition that is whole.
    fn behind(&self, tree: &Tree<'_>) -> Complaint {
        let help = match (&self.token, &tree.node) {
            (Token::Not, _) => Some("write `not` before the whole comparison".to_owned()),
            (Token::Name(name), TreeNode::Literal(_)) => Some(super::literal::unit_help(name)),
            (Token::Name("is" | "eq"), _) => Some("write `==`".to_owned()),
            (Token::Open, TreeNode::Name(_)) => {
                Some("there are no calls but `min` and `max`: a derived fact computes".to_owned())
            }
            (Token::Name(_) | Token::Text(_) | Token::Literal(_) | Token::Open, _) => {
                Some("join conditions with `and` or `or`".to_owned())
            }
            _ => None,
        };
        Complaint::new(
            self.span.clone(),
            format!("{} does not belong here", self.token.describe()),
        )
        .help(help)
    }
}
