//! Automata that read a path one character at a time, and their product.
//!
//! A state either eats one character or goes on to at most two others without eating, and no circle of states eats
//! nothing. So a product has at most four ways out of each of its states, and is searched in linear time.
//!
//! Every run is also watched by [`Watch`], which knows what a path is: without it two patterns could meet in `a//b`.

use super::chars::Chars;
use super::syntax::Node;

#[derive(Debug, Clone)]
pub(super) struct Automaton {
    states: Vec<State>,
    start: usize,
}

#[derive(Debug, Clone)]
enum State {
    Eat(Food, usize),
    Fork(usize, usize),
    Done,
}

#[derive(Debug, Clone)]
enum Food {
    Char(char),
    Class(Chars),
    /// Anything but `/`.
    Name,
    Anything,
}

/// Where in a path a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Watch {
    /// At the beginning of a part.
    Fresh,
    Dot,
    DotDot,
    /// In a part that is a name already.
    Named,
}

const WATCHES: [Watch; 4] = [Watch::Fresh, Watch::Dot, Watch::DotDot, Watch::Named];

impl Watch {
    fn step(self, c: char) -> Option<Self> {
        match (c, self) {
            ('\0', _) => None,
            ('/', Self::Named) => Some(Self::Fresh),
            ('/', _) => None,
            ('.', Self::Fresh) => Some(Self::Dot),
            ('.', Self::Dot) => Some(Self::DotDot),
            _ => Some(Self::Named),
        }
    }
}

/// Whether a text is a path as patterns match them: parts with `/` between, none empty, `.` or `..`.
pub(super) fn is_path(text: &str) -> bool {
    let end = text.chars().try_fold(Watch::Fresh, Watch::step);
    end == Some(Watch::Named)
}

impl Food {
    fn is(&self, c: char) -> bool {
        match self {
            Self::Char(own) => *own == c,
            Self::Class(set) => set.has(c),
            Self::Name => c != '/',
            Self::Anything => true,
        }
    }

    /// Characters that stand for all that both eat: the watch tells no others apart.
    fn shared(&self, other: &Self) -> impl Iterator<Item = char> {
        let letter = match (self, other) {
            (Self::Char(c), food) | (food, Self::Char(c)) => {
                (!matches!(c, '/' | '.') && food.is(*c)).then_some(*c)
            }
            (Self::Class(a), Self::Class(b)) => a.share_other_than_dot(b).then_some('a'),
            (Self::Class(a), _) | (_, Self::Class(a)) => {
                (a.only() != Some('.') && !a.ranges().is_empty()).then_some('a')
            }
            _ => Some('a'),
        };
        let both = |c: char| (self.is(c) && other.is(c)).then_some(c);
        [both('/'), both('.'), letter].into_iter().flatten()
    }

    /// The characters it accepts. When the second is false, a character besides `/` and `.` stands for several.
    fn all(&self) -> (Vec<char>, bool) {
        match self {
            Self::Char(c) => (vec![*c], true),
            Self::Class(set) => match set.only_besides_dot() {
                Some(c) => (vec!['.', c], true),
                None => (self.shared(&Self::Anything).collect(), false),
            },
            Self::Name | Self::Anything => (self.shared(&Self::Anything).collect(), false),
        }
    }
}

impl Automaton {
    pub(super) fn new(nodes: &[Node], dir: bool) -> Self {
        let mut made = Self {
            states: vec![State::Done],
            start: 0,
        };
        let mut end = 0;
        if dir {
            let below = made.repeat(Food::Anything, 0);
            let slash = made.eat(Food::Char('/'), below);
            end = made.fork(0, slash);
        }
        made.start = made.sequence(nodes, end);
        made
    }

    /// A directory without wildcards in its path.
    pub(super) fn of_dir(path: &str) -> Self {
        let nodes: Vec<Node> = path.chars().map(Node::Char).collect();
        Self::new(&nodes, true)
    }

    fn add(&mut self, state: State) -> usize {
        self.states.push(state);
        self.states.len() - 1
    }

    fn eat(&mut self, food: Food, next: usize) -> usize {
        self.add(State::Eat(food, next))
    }

    fn fork(&mut self, one: usize, other: usize) -> usize {
        self.add(State::Fork(one, other))
    }

    /// Any number of times, none included.
    fn repeat(&mut self, food: Food, next: usize) -> usize {
        let eat = self.eat(food, 0);
        let again = self.fork(eat, next);
        if let State::Eat(_, to) = &mut self.states[eat] {
            *to = again;
        }
        again
    }

    /// From the last node to the first: each knows where it leads.
    fn sequence(&mut self, nodes: &[Node], end: usize) -> usize {
        nodes.iter().rev().fold(end, |next, node| match node {
            Node::Char(c) => self.eat(Food::Char(*c), next),
            Node::Class(set) => self.eat(Food::Class(set.clone()), next),
            Node::Star => self.repeat(Food::Name, next),
            Node::Any => self.repeat(Food::Anything, next),
            Node::AnyParts => {
                let slash = self.eat(Food::Char('/'), next);
                let parts = self.repeat(Food::Anything, slash);
                self.fork(next, parts)
            }
            Node::Either(all) => {
                let starts: Vec<usize> = all.iter().map(|nodes| self.sequence(nodes, next)).collect();
                let mut starts = starts.into_iter();
                let first = starts.next().unwrap_or(next);
                starts.fold(first, |one, other| self.fork(one, other))
            }
        })
    }

    /// Adds `state` and what it reaches without eating. `seen` has a place for each state.
    fn reach(&self, state: usize, into: &mut Vec<usize>, seen: &mut [bool]) {
        let mut open = vec![state];
        while let Some(at) = open.pop() {
            if std::mem::replace(&mut seen[at], true) {
                continue;
            }
            into.push(at);
            if let State::Fork(one, other) = self.states[at] {
                open.extend([one, other]);
            }
        }
    }

    /// Whether the whole of `path`, which is one, is eaten.
    pub(super) fn matches(&self, path: &str) -> bool {
        let mut seen = vec![false; self.states.len()];
        let (mut now, mut next) = (Vec::new(), Vec::new());
        self.reach(self.start, &mut now, &mut seen);
        for c in path.chars() {
            seen.fill(false);
            for &at in &now {
                if let State::Eat(food, to) = &self.states[at]
                    && food.is(c)
                {
                    self.reach(*to, &mut next, &mut seen);
                }
            }
            std::mem::swap(&mut now, &mut next);
            next.clear();
            if now.is_empty() {
                return false;
            }
        }
        now.iter().any(|&at| matches!(self.states[at], State::Done))
    }

    /// Whether some path is eaten by both, and how many states of the product were looked at.
    pub(super) fn meets(&self, other: &Self) -> (bool, usize) {
        let width = other.states.len();
        let place = |a: usize, b: usize, w: Watch| (a * width + b) * WATCHES.len() + w as usize;
        let mut seen = vec![0u64; (self.states.len() * width * WATCHES.len()).div_ceil(64)];
        let mut open = vec![(self.start, other.start, Watch::Fresh)];
        let mut steps = 0;
        while let Some((a, b, watch)) = open.pop() {
            let at = place(a, b, watch);
            let bit = 1u64 << (at % 64);
            if seen[at / 64] & bit != 0 {
                continue;
            }
            seen[at / 64] |= bit;
            steps += 1;
            match (&self.states[a], &other.states[b]) {
                (State::Done, State::Done) if watch == Watch::Named => return (true, steps),
                (State::Fork(one, two), _) => open.extend([(*one, b, watch), (*two, b, watch)]),
                (_, State::Fork(one, two)) => open.extend([(a, *one, watch), (a, *two, watch)]),
                (State::Eat(x, to), State::Eat(y, and_to)) => {
                    open.extend(
                        x.shared(y)
                            .filter_map(|c| watch.step(c))
                            .map(|watch| (*to, *and_to, watch)),
                    );
                }
                _ => {}
            }
        }
        (false, steps)
    }

    /// The beginning of every path that it accepts; `None` if it accepts none.
    pub(super) fn prefix(&self) -> Option<String> {
        let live = self.live();
        let is_live = |at: usize, watch: Watch| live[at * WATCHES.len() + watch as usize];
        if !is_live(self.start, Watch::Fresh) {
            return None;
        }
        let mut out = String::new();
        let mut watch = Watch::Fresh;
        let mut seen = vec![false; self.states.len()];
        let mut now = Vec::new();
        self.reach(self.start, &mut now, &mut seen);
        loop {
            let mut common = None;
            let mut next = Vec::new();
            for &at in &now {
                match &self.states[at] {
                    // A path may end here.
                    State::Done if watch == Watch::Named => return Some(out),
                    State::Eat(food, to) => {
                        let leads = |c: char| watch.step(c).is_some_and(|watch| is_live(*to, watch));
                        let (all, exact) = food.all();
                        let alive: Vec<char> = all.into_iter().filter(|&c| leads(c)).collect();
                        match alive[..] {
                            [] => {}
                            [c] if exact || matches!(c, '/' | '.') => {
                                if *common.get_or_insert(c) != c {
                                    return Some(out);
                                }
                                next.push(*to);
                            }
                            _ => return Some(out),
                        }
                    }
                    _ => {}
                }
            }
            let Some((c, after)) = common.and_then(|c| Some((c, watch.step(c)?))) else {
                return Some(out);
            };
            // Only what some path needs may go on, or a dead end would count as a choice.
            next.retain(|&to| is_live(to, after));
            out.push(c);
            watch = after;
            seen.fill(false);
            now.clear();
            for to in next {
                self.reach(to, &mut now, &mut seen);
            }
        }
    }

    /// For each state and watch: whether a path can end from there.
    fn live(&self) -> Vec<bool> {
        let size = WATCHES.len();
        let place = |at: usize, watch: Watch| at * size + watch as usize;
        let mut before: Vec<Vec<usize>> = vec![Vec::new(); self.states.len() * size];
        for (at, state) in self.states.iter().enumerate() {
            for watch in WATCHES {
                match state {
                    State::Fork(one, two) => {
                        before[place(*one, watch)].push(place(at, watch));
                        before[place(*two, watch)].push(place(at, watch));
                    }
                    State::Eat(food, to) => {
                        for after in food.shared(&Food::Anything).filter_map(|c| watch.step(c)) {
                            before[place(*to, after)].push(place(at, watch));
                        }
                    }
                    State::Done => {}
                }
            }
        }
        let mut live = vec![false; before.len()];
        let mut open = vec![place(0, Watch::Named)];
        while let Some(at) = open.pop() {
            if !std::mem::replace(&mut live[at], true) {
                open.extend(before[at].iter().copied());
            }
        }
        live
    }
}
