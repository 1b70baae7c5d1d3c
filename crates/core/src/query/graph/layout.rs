//! Where boxes and lines go: columns from left to right, so that every box stands right of what it waits for.
//!
//! The way of Sugiyama, for each connected part: arrows that close a cycle are turned round, boxes get columns, lines
//! that pass a column get a lane in it, columns are sorted to cross fewer lines, and at last heights are chosen: the
//! best compromise between neighbours that keeps the order and the distances (so that no two boxes can overlap).

use std::collections::HashMap;

use super::Graph;

pub(super) const BOX_WIDTH: f64 = 232.0;
pub(super) const COLUMN_GAP: f64 = 72.0;
const BOX_GAP: f64 = 18.0;
const LANE_GAP: f64 = 12.0;
const PART_GAP: f64 = 36.0;
/// Lanes altogether in one part. Lines beyond that go straight, behind the boxes.
const MAX_LANES: usize = 20_000;
const SWEEPS: usize = 16;

pub(super) struct Layout {
    /// The upper left corner of each vertex's box.
    pub corners: Vec<(f64, f64)>,
    pub wires: Vec<Wire>,
    pub width: f64,
    pub height: f64,
}

/// One arrow, or the part that several share.
pub(super) struct Wire {
    /// Curves, each from the end of a column to the beginning of another: `[x1, y1, x2, y2]`.
    pub curves: Vec<[f64; 4]>,
    pub head: ArrowHead,
    /// It closes a cycle, and points left.
    pub backward: bool,
    /// The ends, if it has both.
    pub ends: Option<(usize, usize)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ArrowHead {
    /// At the end of the last curve, to the right.
    Right,
    /// At the beginning of the first curve, to the left.
    Left,
    None,
}

pub(super) fn layout(graph: &Graph, box_height: f64) -> Layout {
    let mut parts: Vec<LayoutPart> = connected(graph)
        .into_iter()
        .map(|members| LayoutPart::of(graph, &members, box_height))
        .collect();
    parts.sort_by_key(|part| std::cmp::Reverse(part.members.len()));
    pack(graph.vertices.len(), parts)
}

/// Rows of parts, the largest first, in about the shape of a screen.
fn pack(count: usize, parts: Vec<LayoutPart>) -> Layout {
    let area: f64 = parts
        .iter()
        .map(|p| (p.width + PART_GAP) * (p.height + PART_GAP))
        .sum();
    let widest = parts.iter().map(|p| p.width).fold(0.0, f64::max);
    let room = widest.max((area * 1.6).sqrt());
    let mut all = Layout {
        corners: vec![(0.0, 0.0); count],
        wires: Vec::new(),
        width: 0.0,
        height: 0.0,
    };
    let (mut x, mut y, mut row) = (0.0, 0.0, 0.0_f64);
    for part in parts {
        if x > 0.0 && x + part.width > room {
            (x, y, row) = (0.0, y + row, 0.0);
        }
        for (&vertex, corner) in part.members.iter().zip(&part.corners) {
            all.corners[vertex] = (corner.0 + x, corner.1 + y);
        }
        all.wires.extend(part.wires.into_iter().map(|mut wire| {
            for [x1, y1, x2, y2] in &mut wire.curves {
                (*x1, *y1, *x2, *y2) = (*x1 + x, *y1 + y, *x2 + x, *y2 + y);
            }
            wire
        }));
        all.width = all.width.max(x + part.width);
        all.height = all.height.max(y + part.height);
        // Single boxes stand closer: they are a list, not a picture.
        let gap = if part.members.len() == 1 {
            BOX_GAP
        } else {
            PART_GAP
        };
        row = row.max(part.height + gap);
        x += part.width + gap;
    }
    all
}

fn connected(graph: &Graph) -> Vec<Vec<usize>> {
    let mut seen = vec![false; graph.vertices.len()];
    let mut parts = Vec::new();
    for start in 0..seen.len() {
        if std::mem::replace(&mut seen[start], true) {
            continue;
        }
        let mut part = vec![start];
        let mut next = 0;
        while let Some(&v) = part.get(next) {
            for &w in graph.waits_for[v].iter().chain(&graph.needed_by[v]) {
                if !std::mem::replace(&mut seen[w], true) {
                    part.push(w);
                }
            }
            next += 1;
        }
        parts.push(part);
    }
    parts
}

/// A line between two vertices of a part, by their positions in it, from left to right.
struct LayoutLine {
    left: usize,
    right: usize,
    turned: bool,
}

/// A cell of a column: a box (cell `n` is the box of member `n`) or a lane.
struct Cell {
    column: usize,
    height: f64,
    before: Vec<usize>,
    after: Vec<usize>,
}

struct LayoutPart {
    members: Vec<usize>,
    corners: Vec<(f64, f64)>,
    wires: Vec<Wire>,
    width: f64,
    height: f64,
}

impl LayoutPart {
    fn of(graph: &Graph, members: &[usize], box_height: f64) -> Self {
        let lines = oriented(graph, members);
        let columns = columns(members.len(), &lines);
        let mut cells: Vec<Cell> = columns
            .iter()
            .map(|&column| Cell {
                column,
                height: box_height,
                before: Vec::new(),
                after: Vec::new(),
            })
            .collect();
        let routes = routes(&mut cells, &lines);
        let mut order = first_order(&cells);
        fewer_crossings(&cells, &mut order);
        let centres = heights(&cells, &order);
        let left = |cell: usize| cells[cell].column as f64 * (BOX_WIDTH + COLUMN_GAP);
        let curve = |a: usize, b: usize| [left(a) + BOX_WIDTH, centres[a], left(b), centres[b]];
        let wires = routes
            .into_iter()
            .map(|route| Wire {
                curves: route
                    .cells
                    .windows(2)
                    .map(|pair| curve(pair[0], pair[1]))
                    .collect(),
                head: route.head,
                backward: route.head == ArrowHead::Left,
                ends: route.ends.map(|(a, b)| (members[a], members[b])),
            })
            .collect();
        Self {
            corners: (0..members.len())
                .map(|n| (left(n), centres[n] - box_height / 2.0))
                .collect(),
            wires,
            width: order.len() as f64 * (BOX_WIDTH + COLUMN_GAP) - COLUMN_GAP,
            height: cells
                .iter()
                .zip(&centres)
                .map(|(cell, y)| y + cell.height / 2.0)
                .fold(0.0, f64::max),
            members: members.to_vec(),
        }
    }
}

/// The arrows of a part, without those from a box to itself. An arrow that leads back to where a walk along the arrows
/// came from is turned round: what is left has no cycle.
fn oriented(graph: &Graph, members: &[usize]) -> Vec<LayoutLine> {
    #[derive(Clone, Copy, PartialEq)]
    enum Walk {
        New,
        Here,
        Done,
    }
    let local: HashMap<usize, usize> = members.iter().enumerate().map(|(n, &v)| (v, n)).collect();
    let mut walk = vec![Walk::New; members.len()];
    let mut lines = Vec::new();
    // Boxes that wait for nothing first: they belong left.
    let free = (0..members.len()).filter(|&n| graph.waits_for[members[n]].is_empty());
    for start in free.chain(0..members.len()) {
        if walk[start] != Walk::New {
            continue;
        }
        walk[start] = Walk::Here;
        let mut path = vec![(start, 0)];
        while let Some((n, edge)) = path.pop() {
            let Some(&to) = graph.needed_by[members[n]].get(edge) else {
                walk[n] = Walk::Done;
                continue;
            };
            path.push((n, edge + 1));
            let to = local[&to];
            if to == n {
                continue;
            }
            let turned = walk[to] == Walk::Here;
            let (left, right) = if turned { (to, n) } else { (n, to) };
            lines.push(LayoutLine { left, right, turned });
            if walk[to] == Walk::New {
                walk[to] = Walk::Here;
                path.push((to, 0));
            }
        }
    }
    lines
}

/// As far left as what comes before allows; boxes that nothing comes before stand next to what needs them.
fn columns(count: usize, lines: &[LayoutLine]) -> Vec<usize> {
    let mut after = vec![Vec::new(); count];
    let mut left = vec![0; count];
    for line in lines {
        after[line.left].push(line.right);
        left[line.right] += 1;
    }
    let is_first: Vec<bool> = left.iter().map(|&n| n == 0).collect();
    let mut column = vec![0_usize; count];
    let mut ready: Vec<usize> = (0..count).filter(|&n| is_first[n]).collect();
    let mut next = 0;
    while let Some(&n) = ready.get(next) {
        for &to in &after[n] {
            column[to] = column[to].max(column[n] + 1);
            left[to] -= 1;
            if left[to] == 0 {
                ready.push(to);
            }
        }
        next += 1;
    }
    for n in (0..count).filter(|&n| is_first[n]) {
        if let Some(nearest) = after[n].iter().map(|&to| column[to]).min() {
            column[n] = nearest.saturating_sub(1);
        }
    }
    column
}

struct Route {
    cells: Vec<usize>,
    head: ArrowHead,
    ends: Option<(usize, usize)>,
}

/// Lanes for lines that pass columns. Lines from one box share their lanes until they part.
fn routes(cells: &mut Vec<Cell>, lines: &[LayoutLine]) -> Vec<Route> {
    let mut trunks: HashMap<usize, Vec<usize>> = HashMap::new();
    let mut routes = Vec::new();
    let boxes = cells.len();
    for line in lines {
        let (from, to) = (cells[line.left].column, cells[line.right].column);
        let mut own = vec![line.left];
        let trunk = if line.turned {
            &mut own
        } else {
            trunks.entry(line.left).or_insert_with(|| vec![line.left])
        };
        if cells.len() - boxes + (to - from) <= MAX_LANES {
            while trunk.len() < to - from {
                let last = trunk[trunk.len() - 1];
                let lane = cells.len();
                cells.push(Cell {
                    column: from + trunk.len(),
                    height: 0.0,
                    before: Vec::new(),
                    after: Vec::new(),
                });
                join(cells, last, lane);
                trunk.push(lane);
            }
        }
        let shared = trunk.len().min(to - from);
        let last = trunk[shared - 1];
        if cells[last].column + 1 == to {
            join(cells, last, line.right);
        }
        let ends = Some((line.left, line.right));
        let (cells, head) = if line.turned {
            let mut whole = own;
            whole.push(line.right);
            (whole, ArrowHead::Left)
        } else {
            (vec![last, line.right], ArrowHead::Right)
        };
        routes.push(Route { cells, head, ends });
    }
    let mut shared: Vec<Vec<usize>> = trunks.into_values().filter(|trunk| trunk.len() > 1).collect();
    shared.sort();
    routes.extend(shared.into_iter().map(|cells| Route {
        cells,
        head: ArrowHead::None,
        ends: None,
    }));
    routes
}

fn join(cells: &mut [Cell], left: usize, right: usize) {
    cells[left].after.push(right);
    cells[right].before.push(left);
}

/// Columns in the order in which a walk to the right meets their cells: neighbours end up near each other.
fn first_order(cells: &[Cell]) -> Vec<Vec<usize>> {
    let count = cells.iter().map(|cell| cell.column + 1).max().unwrap_or(0);
    let mut order = vec![Vec::new(); count];
    let mut seen = vec![false; cells.len()];
    let mut starts: Vec<usize> = (0..cells.len()).collect();
    starts.sort_by_key(|&c| cells[c].column);
    for start in starts {
        let mut path = vec![start];
        while let Some(cell) = path.pop() {
            if !std::mem::replace(&mut seen[cell], true) {
                order[cells[cell].column].push(cell);
                path.extend(cells[cell].after.iter().rev());
            }
        }
    }
    order
}

/// Sorts each column by where its neighbours stand, to and fro, and keeps the best that was seen.
fn fewer_crossings(cells: &[Cell], order: &mut Vec<Vec<usize>>) {
    let mut place = vec![0; cells.len()];
    let mut best = (crossings(cells, order, &mut place), order.clone());
    for sweep in 0..SWEEPS {
        if best.0 == 0 {
            break;
        }
        let rightward = sweep % 2 == 0;
        for step in 0..order.len() {
            let column = if rightward { step } else { order.len() - 1 - step };
            sort_column(cells, &mut order[column], &mut place, rightward);
        }
        let count = crossings(cells, order, &mut place);
        if count < best.0 {
            best = (count, order.clone());
        }
    }
    *order = best.1;
}

fn sort_column(cells: &[Cell], column: &mut [usize], place: &mut [usize], rightward: bool) {
    let mut keyed: Vec<(f64, usize)> = column
        .iter()
        .map(|&cell| {
            let near = if rightward {
                &cells[cell].before
            } else {
                &cells[cell].after
            };
            let sum: f64 = near.iter().map(|&c| place[c] as f64).sum();
            let middle = if near.is_empty() {
                place[cell] as f64
            } else {
                sum / near.len() as f64
            };
            (middle, cell)
        })
        .collect();
    keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
    for (at, (_, cell)) in keyed.into_iter().enumerate() {
        column[at] = cell;
        place[cell] = at;
    }
}

/// How many lines cross. Also writes down where each cell stands in its column.
fn crossings(cells: &[Cell], order: &[Vec<usize>], place: &mut [usize]) -> usize {
    for column in order {
        for (at, &cell) in column.iter().enumerate() {
            place[cell] = at;
        }
    }
    let mut total = 0;
    for pair in order.windows(2) {
        // A Fenwick tree over the right column: how many earlier lines end below this one?
        let mut tree = vec![0_usize; pair[1].len() + 1];
        let mut drawn = 0;
        for &cell in &pair[0] {
            let mut ends: Vec<usize> = cells[cell].after.iter().map(|&c| place[c]).collect();
            ends.sort_unstable();
            for &end in &ends {
                let mut above = 0;
                let mut at = end + 1;
                while at > 0 {
                    above += tree[at];
                    at &= at - 1;
                }
                total += drawn - above;
            }
            for &end in &ends {
                let mut at = end + 1;
                while at < tree.len() {
                    tree[at] += 1;
                    at += at & at.wrapping_neg();
                }
            }
            drawn += ends.len();
        }
    }
    total
}

/// The middle of each cell, from the top of the part.
fn heights(cells: &[Cell], order: &[Vec<usize>]) -> Vec<f64> {
    let mut y = vec![0.0; cells.len()];
    for column in order {
        let all: f64 = column.windows(2).map(|pair| apart(cells, pair[0], pair[1])).sum();
        let mut at = -all / 2.0;
        for (n, &cell) in column.iter().enumerate() {
            if n > 0 {
                at += apart(cells, column[n - 1], cell);
            }
            y[cell] = at;
        }
    }
    for round in 0..12 {
        for step in 0..order.len() {
            let rightward = round % 2 == 0;
            let column = &order[if rightward { step } else { order.len() - 1 - step }];
            // The first rounds look one way and pull everything along; the last look both ways and straighten.
            settle(
                cells,
                column,
                &mut y,
                rightward || round >= 8,
                !rightward || round >= 8,
            );
        }
    }
    let top = cells
        .iter()
        .zip(&y)
        .map(|(cell, y)| y - cell.height / 2.0)
        .fold(f64::INFINITY, f64::min);
    y.iter_mut().for_each(|y| *y -= top);
    y
}

fn apart(cells: &[Cell], above: usize, below: usize) -> f64 {
    let (a, b) = (cells[above].height, cells[below].height);
    (a + b) / 2.0 + if a > 0.0 && b > 0.0 { BOX_GAP } else { LANE_GAP }
}

/// Moves the cells of one column as near to their neighbours' heights as order and distances allow: least squares
/// under these constraints, which is isotonic regression (pool adjacent violators) after the distances are taken off.
fn settle(cells: &[Cell], column: &[usize], y: &mut [f64], look_left: bool, look_right: bool) {
    // (sum of weighted wishes, sum of weights, how many cells)
    let mut pools: Vec<(f64, f64, usize)> = Vec::with_capacity(column.len());
    let mut offsets = Vec::with_capacity(column.len());
    let mut offset = 0.0;
    for (n, &cell) in column.iter().enumerate() {
        if n > 0 {
            offset += apart(cells, column[n - 1], cell);
        }
        offsets.push(offset);
        let left = cells[cell].before.iter().filter(|_| look_left);
        let right = cells[cell].after.iter().filter(|_| look_right);
        let near: Vec<f64> = left.chain(right).map(|&c| y[c]).collect();
        let wish = if near.is_empty() {
            y[cell]
        } else {
            near.iter().sum::<f64>() / near.len() as f64
        };
        // A bent lane looks worse than a box off its middle.
        let weight = match (near.is_empty(), cells[cell].height > 0.0) {
            (true, _) => 0.2,
            (false, true) => 1.0,
            (false, false) => 3.0,
        };
        pools.push(((wish - offset) * weight, weight, 1));
        while let [.., a, b] = pools[..] {
            if a.0 / a.1 <= b.0 / b.1 {
                break;
            }
            pools.truncate(pools.len() - 2);
            pools.push((a.0 + b.0, a.1 + b.1, a.2 + b.2));
        }
    }
    let settled = pools
        .iter()
        .flat_map(|&(sum, weight, count)| std::iter::repeat_n(sum / weight, count));
    for ((&cell, offset), at) in column.iter().zip(offsets).zip(settled) {
        y[cell] = at + offset;
    }
}
