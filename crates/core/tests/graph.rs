//! Requirement E4: the dependency graph, and that no data can break a format it is shown in.

use std::collections::HashMap;

use jit_core::model::ids::IssueId;
use jit_core::model::issue::IssueState;
use jit_core::query::graph::{
    Bounds, Graph, GraphNode, TreeMark, branches, cycle_through, cycles, dot, mermaid, svg, text, tree,
};

fn node(id: &str, depends_on: &[&str]) -> GraphNode {
    GraphNode {
        id: id.to_owned(),
        title: format!("Title of {id}"),
        state: IssueState::Ready,
        note: None,
        parent: None,
        depends_on: depends_on.iter().map(|&id| id.to_owned()).collect(),
    }
}

fn graph(edges: &[(&str, &[&str])]) -> Graph {
    Graph::new(edges.iter().map(|(id, to)| node(id, to)).collect())
}

fn id(text: &str) -> IssueId {
    text.parse().expect(text)
}

fn found(edges: &[(&str, &[&str])], from: &str, to: &str) -> Option<Vec<String>> {
    let known: HashMap<&str, &[&str]> = edges.iter().copied().collect();
    let cycle = cycle_through(&id(from), &id(to), |at| {
        let to = known.get(at.as_str()).copied().unwrap_or_default();
        to.iter().map(|to| id(to)).collect()
    });
    cycle.map(|ids| ids.iter().map(ToString::to_string).collect())
}

#[test]
fn e4_a_new_cycle_is_found_in_its_shortest_form() {
    let edges: &[(&str, &[&str])] = &[("B", &["C", "D"]), ("C", &["E"]), ("E", &["A"]), ("D", &["A"])];
    let cycle = found(edges, "A", "B").expect("a cycle");
    assert_eq!(cycle, ["A", "B", "D", "A"]);
    assert_eq!(found(edges, "A", "A").expect("a cycle"), ["A", "A"]);
    assert_eq!(found(edges, "B", "A"), None);
    assert_eq!(found(edges, "X", "Y"), None);
}

#[test]
fn e4_ids_in_another_case_close_a_cycle_too() {
    let cycle = found(&[("B", &["a"])], "A", "B").expect("a cycle");
    assert_eq!(cycle, ["A", "B", "A"]);
    assert_eq!(cycles(&graph(&[("A", &["b"]), ("B", &["a"])])), [["A", "B"]]);
}

#[test]
fn e4_a_cycle_that_is_there_already_does_not_trap_the_search() {
    let mut asked = 0;
    let cycle = cycle_through(&id("A"), &id("B"), |at| {
        asked += 1;
        assert!(asked < 10, "asked about the same issues again and again");
        vec![id(if at.as_str() == "B" { "C" } else { "B" })]
    });
    assert_eq!(cycle, None);
    assert_eq!(asked, 2);
}

#[test]
fn e4_long_chains_fit_on_the_stack() {
    const LENGTH: usize = 10_000;
    let name = |n: usize| format!("N-{n}");
    let cycle = cycle_through(&id(&name(LENGTH)), &id(&name(0)), |at| {
        let n: usize = at.as_str()[2..].parse().expect("a number");
        vec![id(&name(n + 1))]
    });
    assert_eq!(cycle.map(|ids| ids.len()), Some(LENGTH + 2));

    let mut nodes: Vec<GraphNode> = (0..LENGTH).map(|n| node(&name(n), &[&name(n + 1)])).collect();
    let chain = Graph::new(nodes.clone());
    assert!(cycles(&chain).is_empty());
    assert!(svg(&chain).len() > LENGTH);
    assert!(text(&chain).contains("N-9999"));
    assert!(tree(&chain, "N-0", Bounds::default()).contains("(more is not shown)"));
    nodes.push(node(&name(LENGTH), &[&name(0)]));
    let ring = Graph::new(nodes);
    assert_eq!(
        cycles(&ring).iter().map(Vec::len).collect::<Vec<_>>(),
        [LENGTH + 1]
    );
    assert!(svg(&ring).len() > LENGTH);
}

#[test]
fn e4_cycles_are_grouped_and_sorted() {
    let graph = graph(&[
        ("Z", &["Y"]),
        ("Y", &["Z", "A"]),
        ("A", &["A"]),
        ("P", &["Q"]),
        ("Q", &["R"]),
        ("R", &["P", "Z"]),
        ("FREE", &["Q", "MISSING"]),
    ]);
    let expected: [&[&str]; 3] = [&["A"], &["P", "Q", "R"], &["Y", "Z"]];
    assert_eq!(cycles(&graph), expected);
}

#[test]
fn e4_the_tree_shows_each_issue_once_and_marks_the_rest() {
    let mut nodes = vec![
        node("A", &["B", "C", "GONE"]),
        node("B", &["D"]),
        node("C", &["D", "A"]),
        node("D", &[]),
    ];
    nodes[1].state = IssueState::InProgress;
    nodes[1].note = Some("agent:one".to_owned());
    nodes[3].state = IssueState::Done;
    let graph = Graph::new(nodes);
    assert_eq!(
        tree(&graph, "a", Bounds::default()),
        "○ A  Title of A  (ready)\n\
         ├─ ▶ B  Title of B  (in_progress, agent:one)\n\
         │  └─ ✓ D  Title of D  (done)\n\
         ├─ ○ C  Title of C  (ready)\n\
         │  ├─ ✓ D (above)\n\
         │  └─ ○ A (cycle)\n\
         └─ ? GONE (unknown)\n"
    );
    assert_eq!(tree(&graph, "NOBODY", Bounds::default()), "? NOBODY (unknown)\n");
    let data = branches(&graph, "A", Bounds::default());
    assert_eq!(data.depends_on[1].depends_on[1].mark, Some(TreeMark::Cycle));
    let json = serde_json::to_value(&data).expect("json");
    assert_eq!(json["depends_on"][2]["mark"], "unknown");
    assert_eq!(json["depends_on"][0]["depends_on"][0]["state"], "done");
}

#[test]
fn e4_the_tree_is_bounded_in_depth_and_size() {
    // Each issue depends on all later ones: as many paths as two to the power of thirty.
    let names: Vec<String> = (0..30).map(|n| format!("N-{n:02}")).collect();
    let nodes = (0..30).map(|n| {
        let later: Vec<&str> = names[n + 1..].iter().map(String::as_str).collect();
        node(&names[n], &later)
    });
    let graph = Graph::new(nodes.collect());
    let whole = tree(&graph, "N-00", Bounds::default());
    assert_eq!(whole.lines().count(), 1 + 29 * 30 / 2);
    let few = tree(&graph, "N-00", Bounds { depth: 50, size: 20 });
    assert!(few.lines().count() < 60, "{few}");
    assert!(few.contains("(more is not shown)"), "{few}");
    let flat = tree(&graph, "N-00", Bounds { depth: 1, size: 1000 });
    assert!(flat.lines().all(|line| !line.starts_with("│  ├")), "{flat}");
    let deep: Vec<GraphNode> = (0..500)
        .map(|n| node(&format!("N-{n}"), &[&format!("N-{}", n + 1)]))
        .collect();
    let any = Bounds {
        depth: usize::MAX,
        size: usize::MAX,
    };
    let json = serde_json::to_string(&branches(&Graph::new(deep), "N-0", any)).expect("json");
    assert!(
        serde_json::from_str::<serde_json::Value>(&json).is_ok(),
        "a reader can nest this deep"
    );
}

#[test]
fn e4_the_text_says_what_can_begin_and_what_waits_for_what() {
    let mut nodes = vec![
        node("SHIP", &["BUILD", "TEST"]),
        node("TEST", &["BUILD"]),
        node("BUILD", &["PLAN"]),
        node("PLAN", &[]),
        node("X", &["Y"]),
        node("Y", &["X"]),
        node("BEHIND", &["X"]),
        node("LOST", &["NOWHERE"]),
    ];
    nodes[3].state = IssueState::Done;
    let shown = text(&Graph::new(nodes));
    assert_eq!(
        shown,
        "8 issues, 8 dependencies: 7 ready, 1 done\n\
         \n\
         Step 1: nothing open in the way (1)\n\
         \x20 ○ BUILD  Title of BUILD  (ready)  needed by 2\n\
         \n\
         Step 2: after step 1 (2)\n\
         \x20 ○ TEST  Title of TEST  (ready)  waits for BUILD  needed by 1\n\
         \x20 ○ LOST  Title of LOST  (ready)  waits for NOWHERE\n\
         \n\
         Step 3: after step 2 (1)\n\
         \x20 ○ SHIP  Title of SHIP  (ready)  waits for BUILD, TEST\n\
         \n\
         Stuck: in a cycle or behind one (3)\n\
         \x20 ○ X       Title of X  (ready)  waits for Y (cycle)  needed by 2\n\
         \x20 ○ Y       Title of Y  (ready)  waits for X (cycle)  needed by 1\n\
         \x20 ○ BEHIND  Title of BEHIND  (ready)  waits for X\n\
         \n\
         Unknown: depended on, but no such issue (1)\n\
         \x20 ? NOWHERE  (unknown)  needed by 1\n\
         \n\
         Closed (1)\n\
         \x20 ✓ PLAN  Title of PLAN  (done)\n"
    );
    assert_eq!(text(&Graph::new(Vec::new())), "0 issues, 0 dependencies\n");
}

/// Titles and ids that mean something to one format or another.
fn hostile() -> Graph {
    let titles = [
        "a\nb\r\nc\u{2028}d",
        "\u{1b}[31mred\u{7}\0",
        "quote \" back \\ slash \\\" \\N \\",
        "] ) } --> x; subgraph end",
        "</text></svg><script>alert(1)</script>",
        "%%{init: {'theme':'x'}}%% %% comment",
        "&amp; &#0; &lt; ]]> <!-- -->",
        "\u{202e}backwards\u{2066} \u{200b}\u{feff}\u{fffe}\u{ffff}\u{fdd0}",
        "`code` **bold** $$x$$ #quot; #35; style x:#fff;",
        "1. list",
        "漢字仮名交じり文の長い題名はどこで折り返されるのか確かめるためのものです",
        "",
    ];
    let mut nodes: Vec<GraphNode> = titles
        .iter()
        .enumerate()
        .map(|(n, title)| {
            let mut node = node(&format!("H-{n}"), &["H-0", "no\"such\n</g> id"]);
            node.title = (*title).to_owned();
            node.note = Some((*title).to_owned());
            node.parent = Some("H-1".to_owned());
            node.state = IssueState::ALL[n % IssueState::ALL.len()];
            node
        })
        .collect();
    nodes.push(node("end", &["H-0", "end"]));
    nodes.push(node("\"]; \u{1b}]0;x\u{7}", &["end"]));
    let mut long = node(&"L".repeat(70), &["H-3"]);
    long.title = "W".repeat(500);
    nodes.push(long);
    Graph::new(nodes)
}

#[test]
fn e4_nothing_that_terminals_act_on_reaches_any_format() {
    let graph = hostile();
    let formats = [
        text(&graph),
        tree(&graph, "H-3", Bounds::default()),
        dot(&graph),
        mermaid(&graph),
        svg(&graph),
    ];
    for shown in formats {
        let bad = shown
            .chars()
            .find(|&c| c != '\n' && jit_core::model::ids::is_unprintable(c));
        assert_eq!(bad, None, "{shown}");
    }
}

#[test]
fn e4_svg_is_well_formed_whatever_the_titles_are() {
    let shown = svg(&hostile());
    let document = roxmltree::Document::parse(&shown).expect("well-formed XML");
    let known = [
        "svg", "title", "style", "defs", "clipPath", "rect", "g", "path", "text",
    ];
    for element in document.descendants().filter(roxmltree::Node::is_element) {
        assert!(
            known.contains(&element.tag_name().name()),
            "{:?}",
            element.tag_name()
        );
    }
    let texts: Vec<&str> = document.descendants().filter_map(|node| node.text()).collect();
    assert!(
        texts.iter().any(|text| text.contains("</text></svg><script>")),
        "{texts:?}"
    );
    assert!(texts.iter().any(|text| text.contains("&amp; &#0;")), "{texts:?}");
}

/// Upper left corners of the boxes, and their size.
fn boxes(shown: &str) -> Vec<(f64, f64, f64, f64)> {
    let document = roxmltree::Document::parse(shown).expect("well-formed XML");
    let number = |node: roxmltree::Node<'_, '_>, name| {
        node.attribute(name).and_then(|v| v.parse().ok()).unwrap_or(0.0)
    };
    document
        .descendants()
        .filter(|node| {
            node.attribute("class")
                .is_some_and(|class| class.starts_with("box"))
                && node.attribute("x").is_none()
        })
        .map(|rect| {
            let moved = rect
                .parent()
                .and_then(|g| g.attribute("transform"))
                .expect("moved");
            let (x, y) = moved["translate(".len()..moved.len() - 1]
                .split_once(',')
                .expect("two numbers");
            (
                x.parse().expect("x"),
                y.parse().expect("y"),
                number(rect, "width"),
                number(rect, "height"),
            )
        })
        .collect()
}

/// A repeatable graph: each issue depends on up to three earlier ones, now and then on a later one.
fn random(count: usize) -> Graph {
    let mut seed = 88_172_645_463_325_252_u64;
    let mut next = |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed % below as u64) as usize
    };
    let nodes = (0..count).map(|n| {
        let mut to: Vec<String> = (0..next(4))
            .map(|_| format!("N-{}", n.saturating_sub(1 + next(40))))
            .collect();
        if next(50) == 0 {
            to.push(format!("N-{}", n + 3));
        }
        let to: Vec<&str> = to.iter().map(String::as_str).collect();
        node(&format!("N-{n}"), &to)
    });
    Graph::new(nodes.collect())
}

#[test]
fn e4_boxes_never_overlap_and_stay_inside_the_picture() {
    for count in [1, 2, 25, 300] {
        let shown = svg(&random(count));
        let boxes = boxes(&shown);
        assert!(boxes.len() >= count);
        for (n, a) in boxes.iter().enumerate() {
            assert!(a.0 >= 0.0 && a.1 >= 0.0, "{a:?}");
            for b in &boxes[n + 1..] {
                let apart = a.0 + a.2 <= b.0 || b.0 + b.2 <= a.0 || a.1 + a.3 <= b.1 || b.1 + b.3 <= a.1;
                assert!(apart, "{a:?} overlaps {b:?}");
            }
        }
    }
}

#[test]
fn e4_each_box_stands_right_of_what_it_waits_for() {
    let shown = svg(&graph(&[("C", &["B", "A"]), ("B", &["A"]), ("A", &[])]));
    let boxes = boxes(&shown);
    assert!(boxes[0].0 > boxes[1].0 && boxes[1].0 > boxes[2].0, "{boxes:?}");
    assert_eq!(
        shown.matches("class=\"head\"").count(),
        3 + 1,
        "three arrows and one in the legend"
    );
}

#[test]
fn e4_a_dense_graph_is_drawn_too() {
    let names: Vec<String> = (0..400).map(|n| format!("N-{n}")).collect();
    let nodes = (0..400).map(|n| {
        let earlier: Vec<&str> = names[..n].iter().map(String::as_str).collect();
        node(&names[n], &earlier)
    });
    let shown = svg(&Graph::new(nodes.collect()));
    assert!(roxmltree::Document::parse(&shown).is_ok());
    assert_eq!(boxes(&shown).len(), 400);
}

/// Reads a quoted string of DOT at the beginning of `text`; gives what follows it.
fn after_quoted(text: &str) -> &str {
    let mut chars = text.strip_prefix('"').expect("a quote").char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => {
                chars.next();
            }
            '"' => return &text[at + 2..],
            _ => {}
        }
    }
    panic!("the string has no end: {text}");
}

#[test]
fn e4_dot_quotes_names_and_labels() {
    let shown = dot(&hostile());
    let inner: Vec<&str> = shown.lines().filter(|line| line.starts_with("  \"")).collect();
    assert!(inner.len() > 30);
    for line in inner {
        let rest = after_quoted(line.trim_start());
        let end = if let Some(label) = rest.strip_prefix(" [label=") {
            after_quoted(label)
        } else {
            after_quoted(rest.strip_prefix(" -> ").expect("an arrow"))
        };
        assert!(end.ends_with(';'), "{line}");
        assert!(
            end == ";" || end.starts_with(", fillcolor=") || end.starts_with(" ["),
            "{line}"
        );
    }
    let small = dot(&graph(&[("B", &["A"]), ("A", &[])]));
    assert!(small.contains("\n  \"A\" -> \"B\";\n"), "{small}");
}

#[test]
fn e4_mermaid_labels_hold_nothing_but_text() {
    let shown = mermaid(&hostile());
    let labels: Vec<&str> = shown.lines().filter(|line| line.contains("[\"")).collect();
    assert!(labels.len() >= 15);
    for line in labels {
        let (_, label) = line.split_once("[\"").expect("a label");
        let (label, class) = label.split_once("\"]:::").expect("its end");
        assert!(
            !label.contains(['"', '<', '>', '`', '%', '$', '[', ']', '{', '}', '*', '&']),
            "{line}"
        );
        assert!(
            class.chars().all(|c| c.is_ascii_lowercase() || c == '_'),
            "{line}"
        );
    }
    assert!(!shown.contains("%%"));
    assert!(!shown.contains("style x:"));
    assert!(shown.contains("#quot;"));
    let small = mermaid(&graph(&[("B", &["A"]), ("A", &["B"])]));
    assert!(
        small.contains("  n1 --> n0\n") && small.contains("linkStyle 0,1 "),
        "{small}"
    );
}

#[test]
fn e4_two_nodes_of_one_name_are_one_and_edges_are_not_repeated() {
    let graph = graph(&[("A", &["B", "b", "B"]), ("a", &["C"]), ("B", &[])]);
    assert_eq!((graph.issues(), graph.dependencies()), (2, 1));
}
