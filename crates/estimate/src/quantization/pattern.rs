//! Patterns of module names, from the lists of modules that are not quantised: parts of names, wildcards, regular expressions.
//!
//! The expressions are untrusted input: they are matched by sets of positions, without backtracking, in time proportional to
//! expression × name, and × name once more for repetitions.

use std::collections::BTreeSet;

/// Characters of the longest expression that is read.
const LONGEST: usize = 2000;

/// The deepest group within groups.
const DEEPEST: u32 = 24;

/// The largest count of a repetition.
const MOST_COPIES: u32 = 64;

/// A pattern of module names.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Pattern {
    /// Anywhere in the name, between dots, or a class of modules.
    Part(String),
    /// With `*` and `?`, over the whole name.
    Wildcard(String),
    /// Any of these names, with all that is within.
    Names(BTreeSet<String>),
    /// A regular expression from the name's start (`re:` of compressed-tensors, `dynamic` of GPTQ).
    Expression(Node),
}

/// A regular expression.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Node {
    /// A character of a set.
    One(Set),
    /// A sequence.
    All(Vec<Node>),
    /// One of several.
    Any(Vec<Node>),
    /// Repeated at least and at most this often.
    Repeat(Box<Node>, u32, Option<u32>),
    /// The name's start.
    Start,
    /// The name's end.
    End,
    /// A look-ahead, which may be negated.
    Ahead(Box<Node>, bool),
}

/// A set of characters.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Set {
    ranges: Vec<(char, char)>,
    is_negated: bool,
}

impl Set {
    fn holds(&self, c: char) -> bool {
        self.ranges.iter().any(|&(from, to)| (from..=to).contains(&c)) != self.is_negated
    }
}

impl Pattern {
    /// A regular expression; `None` if it is none, or of a kind that is not understood.
    pub(crate) fn expression(text: &str) -> Option<Pattern> {
        if text.len() > LONGEST {
            return None;
        }
        let mut parser = Parser { text: text.chars().collect(), at: 0 };
        let node = parser.alternatives(0)?;
        (parser.at == parser.text.len()).then_some(Pattern::Expression(node))
    }

    /// Whether a module is meant.
    pub(crate) fn matches(&self, module: &str) -> bool {
        match self {
            Pattern::Part(part) => {
                let part = part.trim_end_matches('.');
                module.match_indices(part).any(|(at, _)| {
                    let before = module[..at].chars().next_back();
                    let after = module[at + part.len()..].chars().next();
                    !part.is_empty()
                        && before.is_none_or(|c| c == '.' || part.starts_with('.'))
                        && after.is_none_or(|c| c == '.' || part.ends_with('.'))
                })
            }
            Pattern::Wildcard(pattern) => is_like(pattern, module),
            Pattern::Names(names) => {
                let ends = module.match_indices('.').map(|(at, _)| at).chain([module.len()]);
                ends.into_iter().any(|end| names.contains(&module[..end]))
            }
            Pattern::Expression(node) => {
                let text: Vec<char> = module.chars().collect();
                !ends(node, &text, &[0]).is_empty()
            }
        }
    }
}

/// Whether `fnmatch` matches a module or one of its parents.
fn is_like(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let mut reached = vec![false; text.len() + 1];
    reached[0] = true;
    for &c in &pattern {
        let mut next = vec![false; text.len() + 1];
        for at in 0..=text.len() {
            if c == '*' {
                next[at] = reached[at] || (at > 0 && next[at - 1]);
            } else if at > 0 {
                next[at] = reached[at - 1] && (c == '?' || c == text[at - 1]);
            }
        }
        reached = next;
    }
    reached.iter().enumerate().any(|(at, &is_reached)| is_reached && text.get(at).is_none_or(|&c| c == '.'))
}

/// Where a match that begins at one of `starts`, which ascend, can end: ascending.
fn ends(node: &Node, text: &[char], starts: &[usize]) -> Vec<usize> {
    match node {
        Node::One(set) => {
            starts.iter().filter(|&&at| text.get(at).is_some_and(|&c| set.holds(c))).map(|at| at + 1).collect()
        }
        Node::All(nodes) => nodes.iter().fold(starts.to_vec(), |starts, node| ends(node, text, &starts)),
        Node::Any(nodes) => united(nodes.iter().flat_map(|node| ends(node, text, starts)).collect()),
        Node::Repeat(node, least, most) => {
            let mut at = starts.to_vec();
            for _ in 0..*least {
                at = ends(node, text, &at);
            }
            let mut all = at.clone();
            for _ in 0..most.map_or(text.len() as u64, |most| u64::from(most.saturating_sub(*least))) {
                at = ends(node, text, &at);
                let known = all.len();
                all = united(all.into_iter().chain(at.iter().copied()).collect());
                if all.len() == known {
                    break;
                }
            }
            all
        }
        Node::Start => starts.iter().copied().filter(|&at| at == 0).collect(),
        Node::End => starts.iter().copied().filter(|&at| at == text.len()).collect(),
        Node::Ahead(node, wanted) => {
            starts.iter().copied().filter(|&at| ends(node, text, &[at]).is_empty() != *wanted).collect()
        }
    }
}

fn united(mut positions: Vec<usize>) -> Vec<usize> {
    positions.sort_unstable();
    positions.dedup();
    positions
}

struct Parser {
    text: Vec<char>,
    at: usize,
}

impl Parser {
    fn next_is(&mut self, c: char) -> bool {
        let is = self.text.get(self.at) == Some(&c);
        self.at += usize::from(is);
        is
    }

    fn alternatives(&mut self, depth: u32) -> Option<Node> {
        if depth > DEEPEST {
            return None;
        }
        let mut all = vec![self.sequence(depth)?];
        while self.next_is('|') {
            all.push(self.sequence(depth)?);
        }
        if all.len() == 1 { all.pop() } else { Some(Node::Any(all)) }
    }

    fn sequence(&mut self, depth: u32) -> Option<Node> {
        let mut all = Vec::new();
        while let Some(&c) = self.text.get(self.at).filter(|c| !matches!(**c, '|' | ')')) {
            self.at += 1;
            let node = match c {
                '(' => self.group(depth)?,
                '[' => Node::One(self.set()?),
                '.' => Node::One(Set { ranges: Vec::new(), is_negated: true }),
                '^' => Node::Start,
                '$' => Node::End,
                '\\' => Node::One(self.escaped()?),
                '*' | '+' | '?' => return None,
                c => Node::One(Set { ranges: vec![(c, c)], is_negated: false }),
            };
            all.push(self.repeated(node)?);
        }
        Some(Node::All(all))
    }

    fn group(&mut self, depth: u32) -> Option<Node> {
        let kind: String = self.text.get(self.at..)?.iter().take(2).collect();
        let wanted = match kind.as_str() {
            "?=" => Some(true),
            "?!" => Some(false),
            "?:" => None,
            kind if kind.starts_with('?') => return None,
            _ => {
                let inner = self.alternatives(depth + 1)?;
                return self.next_is(')').then_some(inner);
            }
        };
        self.at += 2;
        let inner = self.alternatives(depth + 1)?;
        if !self.next_is(')') {
            return None;
        }
        Some(match wanted {
            Some(wanted) => Node::Ahead(Box::new(inner), wanted),
            None => inner,
        })
    }

    fn escaped(&mut self) -> Option<Set> {
        let c = *self.text.get(self.at)?;
        self.at += 1;
        let ranges = match c.to_ascii_lowercase() {
            'd' => vec![('0', '9')],
            'w' => vec![('0', '9'), ('a', 'z'), ('A', 'Z'), ('_', '_')],
            's' => vec![(' ', ' '), ('\t', '\r')],
            _ if c.is_ascii_alphanumeric() => return None,
            _ => return Some(Set { ranges: vec![(c, c)], is_negated: false }),
        };
        Some(Set { ranges, is_negated: c.is_ascii_uppercase() })
    }

    fn set(&mut self) -> Option<Set> {
        let is_negated = self.next_is('^');
        let mut ranges = Vec::new();
        loop {
            let c = *self.text.get(self.at)?;
            self.at += 1;
            match c {
                ']' => return Some(Set { ranges, is_negated }),
                '\\' => {
                    let inner = self.escaped()?;
                    if inner.is_negated {
                        return None;
                    }
                    ranges.extend(inner.ranges);
                }
                from => {
                    let to = match (self.text.get(self.at), self.text.get(self.at + 1)) {
                        (Some('-'), Some(&to)) if to != ']' => {
                            self.at += 2;
                            to
                        }
                        _ => from,
                    };
                    ranges.push((from, to));
                }
            }
        }
    }

    fn repeated(&mut self, node: Node) -> Option<Node> {
        let (least, most) = match self.text.get(self.at) {
            Some('*') => (0, None),
            Some('+') => (1, None),
            Some('?') => (0, Some(1)),
            Some('{') => {
                let length = self.text[self.at..].iter().position(|c| *c == '}')?;
                let inner: String = self.text[self.at + 1..self.at + length].iter().collect();
                self.at += length;
                let (least, most) = inner.split_once(',').unwrap_or((&inner, &inner));
                let most = if most.is_empty() { None } else { Some(most.parse().ok()?) };
                (least.parse().ok()?, most)
            }
            _ => return Some(node),
        };
        self.at += 1;
        // Lazy and greedy give the same answer to whether there is a match.
        self.next_is('?');
        let is_bounded = least <= MOST_COPIES && most.is_none_or(|most| (least..=MOST_COPIES).contains(&most));
        is_bounded.then(|| Node::Repeat(Box::new(node), least, most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_match_as_python_does() {
        for (expression, module, is_match) in [
            (r".*lm_head", "lm_head", true),
            (r".*mlp\.gate$", "model.layers.3.mlp.gate", true),
            (r".*mlp\.gate$", "model.layers.3.mlp.gate_proj", false),
            (r"model\.layers\.(0|1[0-9])\..*", "model.layers.12.mlp.up_proj", true),
            (r"model\.layers\.(0|1[0-9])\..*", "model.layers.2.mlp.up_proj", false),
            (r".*self_attn.*", "model.layers.0.self_attn.q_proj", true),
            (r"^(?!.*lm_head).*experts.\d+", "model.layers.0.mlp.experts.7.up_proj", true),
            (r"^(?!.*up_proj).*experts", "model.layers.0.mlp.experts.7.up_proj", false),
            (r"(?:.*\.)?layers\.\d{1,2}\.", "model.layers.10.x", true),
            (r"[^.]+\.visual", "model.visual.blocks", true),
            (r"q_proj", "model.q_proj", false),
        ] {
            let pattern = Pattern::expression(expression).unwrap();
            assert_eq!(pattern.matches(module), is_match, "{expression} {module}");
        }
        for bad in ["(", "a**", "[a", "(?<a>b)", "a{99999}", r"\1"] {
            assert_eq!(Pattern::expression(bad), None, "{bad}");
        }
        assert_eq!(Pattern::expression(&"(".repeat(5000)), None);
    }

    #[test]
    fn an_expression_that_would_go_back_for_ever_ends_at_once() {
        let pattern = Pattern::expression("(((a*)*)*)*b").unwrap();
        assert!(!pattern.matches(&"a".repeat(300)));
    }

    #[test]
    fn parts_are_whole_between_dots_and_wildcards_cover_what_is_below() {
        let part = |part: &str, module: &str| Pattern::Part(part.to_owned()).matches(module);
        assert!(part("lm_head", "lm_head"));
        assert!(part("visual", "model.visual.blocks.0.attn.qkv"));
        assert!(part("layers.0.mlp", "model.layers.0.mlp.up_proj"));
        assert!(!part("layers.1", "model.layers.10.mlp"));
        assert!(!part("gate", "model.layers.0.mlp.gate_proj"));
        let like = |pattern: &str, module: &str| Pattern::Wildcard(pattern.to_owned()).matches(module);
        assert!(like("model.layers.*.self_attn", "model.layers.3.self_attn.q_proj"));
        assert!(like("*lm_head*", "lm_head"));
        assert!(!like("model.layers.1.*", "model.layers.10.mlp"));
    }
}
