//! Command lines, and the commands that the parser finds in them.

use super::*;

/// Commands as words joined by blanks; unknown words in `<>`, written files after `>`, subshells in brackets.
fn shown(text: &str) -> String {
    let mut out = Vec::new();
    for item in read(text).expect(text) {
        out.push(match item {
            Item::Enter => "(".to_owned(),
            Item::Leave => ")".to_owned(),
            Item::Run(simple) => {
                let show = |word: &Word| match word.known {
                    true => word.text.clone(),
                    false => format!("<{}>", word.text),
                };
                let mut words: Vec<String> = simple.words.iter().map(show).collect();
                words.extend(simple.writes.iter().map(|word| format!(">{}", show(word))));
                words.join(" ")
            }
        });
    }
    out.join(" ; ")
}

#[test]
fn f9_command_lines_are_read_as_a_shell_reads_them() {
    for (text, expected) in [
        ("git stash", "git stash"),
        ("a && b || c; d & e | f", "a ; b ; c ; d ; e ; f"),
        ("echo 'a b' \"c d\" e\\ f", "echo a b c d e f"),
        ("echo a > x 2>> 'y z' 2>&1 >&log &> w", "echo a >x >y z >log >w"),
        ("cat < in > out", "cat >out"),
        ("(cd x && y); z", "( ; cd x ; y ; ) ; z"),
        (
            "echo \"$(git stash) b\"",
            "( ; git stash ; ) ; echo <$(git stash) b>",
        ),
        ("echo `git stash`", "( ; git stash ; ) ; echo <`git stash`>"),
        (
            "diff <(a) <(b c)",
            "( ; a ; ) ; ( ; b c ; ) ; diff </dev/fd> </dev/fd>",
        ),
        ("echo $HOME/x ${A:-b} $1 a$", "echo <$HOME/x> <${A:-b}> <$1> a$"),
        ("a # git stash\nb", "a ; b"),
        ("a#b", "a#b"),
        ("a \\\n b", "a b"),
        ("cat <<'E' > f\ngit stash\nE\nls", "cat >f ; ls"),
        ("cat <<E\n$(git stash)\nE\nls", "cat ; ( ; git stash ; ) ; ls"),
        ("cat <<-E\n\tx\n\tE\nls", "cat ; ls"),
        (
            "git commit -m \"$(cat <<'EOF'\nit's; fine\nEOF\n)\"",
            "( ; cat ; ) ; git commit -m <$(cat <<'EOF'\nit's; fine\nEOF\n)>",
        ),
        ("f() { git stash; }", "f ; { git stash ; }"),
        ("case x in a) b;; esac", "case x in a ; b ; esac"),
        ("x=$((1+(2))) y", "<x=$((1+(2)))> y"),
        ("a x{b,c}y z{b}{", "a <x{b,c}y> z{b}{"),
        ("a '{b,c}' {} {1..3} {$X,y}", "a {b,c} {} <{1..3}> <{$X,y}>"),
        ("g$'\\x69't stash", "<g69t> stash"),
        ("cat <<< 'x' > y", "cat >y"),
        ("", ""),
    ] {
        assert_eq!(shown(text), expected, "{text}");
    }
}

#[test]
fn f9_what_cannot_be_read_is_an_error_and_every_input_ends() {
    for text in [
        "echo 'a",
        "echo \"a",
        "echo $(a",
        "echo `a",
        "(a",
        "echo ${a",
        "$'",
        "echo $((1)",
        "<(",
    ] {
        assert_eq!(read(text), Err(Unreadable::Open), "{text}");
    }
    assert_eq!(read(&"$(".repeat(500)), Err(Unreadable::Deep));
    assert_eq!(read(&"${`".repeat(500)), Err(Unreadable::Deep));
    assert_eq!(read(&"x".repeat(LONGEST + 1)), Err(Unreadable::Long));
    let _ = read("\\");
    let _ = read("cat <<E");
    let _ = read("cat <<E\n\\");
    // Random text of its own grammar: parsing must end.
    let letters = b"ab'\"\\$(){}`<>&|;#\n -";
    let mut seed = 1u32;
    for _ in 0..20_000 {
        let mut text = String::new();
        for _ in 0..12 {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            text.push(letters[(seed >> 24) as usize % letters.len()] as char);
        }
        let _ = read(&text);
    }
}
