//! The forms: what a paste, a collector, a terminal or a mail program makes of lines, without taking evidence away.

/// A form, and how a text is written in it.
pub(super) struct Form {
    pub(super) name: &'static str,
    pub(super) write: fn(&str) -> String,
}

const fn form(name: &'static str, write: fn(&str) -> String) -> Form {
    Form { name, write }
}

pub(super) const FORMS: &[Form] = &[
    form("prefix-lost", |text| {
        each(text, |line| frame(line).message.to_owned())
    }),
    form("level-kept", |text| each(text, with_level_alone)),
    form("time-lost", |text| {
        each(text, |line| without_time(line).to_owned())
    }),
    form("host-lost", |text| each(text, without_writer)),
    form("md-bullet", |text| each(text, |line| format!("- {line}"))),
    form("md-star", |text| each(text, |line| format!("* {line}"))),
    form("md-numbered", |text| {
        numbered(text, |number, line| format!("{number}. {line}"))
    }),
    form("md-quote", |text| {
        each_even_empty(text, |line| format!("> {line}"))
    }),
    form("md-quote-nested", |text| {
        each_even_empty(text, |line| format!("> > {line}"))
    }),
    form("md-backtick", |text| each(text, |line| format!("`{line}`"))),
    form("md-fence", |text| {
        format!("The log:\n\n```bash\n{text}```\n")
    }),
    form("md-bold", |text| each(text, |line| format!("**{line}**"))),
    form("md-cell", |text| each(text, |line| format!("| {line} |"))),
    form("indented", |text| each(text, |line| format!("    {line}"))),
    form("html-escape", html_escaped),
    form("html-tags", |text| {
        each(&html_escaped(text), |line| {
            format!("<p><code>{line}</code></p>")
        })
    }),
    form("html-break", |text| {
        each(&html_escaped(text), |line| format!("{line}<br>"))
    }),
    form("wrap80", |text| wrapped(text, 80)),
    form("wrap100", |text| wrapped(text, 100)),
    form("wrap120", |text| wrapped(text, 120)),
    form("wrap80-words", |text| wrapped_at_words(text, 80)),
    form("wrap72-words-quoted", |text| {
        each_even_empty(&wrapped_at_words(text, 72), |line| format!("> {line}"))
    }),
    form("docker-ts", |text| {
        each_even_empty(text, |line| format!("{NANO} {line}"))
    }),
    form("cri-ts", |text| {
        each_even_empty(text, |line| format!("{NANO} stderr F {line}"))
    }),
    form("docker-json", |text| {
        each_even_empty(text, |line| {
            let line = serde_json::Value::from(format!("{line}\n"));
            format!("{{\"log\":{line},\"stream\":\"stderr\",\"time\":\"{NANO}\"}}")
        })
    }),
    form("loki-json", |text| {
        each_even_empty(text, |line| {
            let line = serde_json::Value::from(line);
            format!(
                "{{\"line\":{line},\"timestamp\":\"1767323045123456789\",\"fields\":{{\"pod\":\"w-0\"}}}}"
            )
        })
    }),
    form("k8s-prefix", |text| {
        each(text, |line| format!("[pod/worker-0/train] {line}"))
    }),
    form("journald", |text| {
        each(text, |line| {
            format!("Jan 02 03:04:05 node07 slurmstepd[4242]: {line}")
        })
    }),
    form("syslog-iso", |text| {
        each(text, |line| {
            format!("2026-01-02T03:04:05+00:00 node07 train[4242]: {line}")
        })
    }),
    form("ray", |text| {
        each(text, |line| {
            format!("(RayWorkerWrapper pid=4242, ip=10.1.2.3) {line}")
        })
    }),
    form("torchrun", |text| {
        each(text, |line| format!("[default3]:{line}"))
    }),
    form("rank-colon", |text| {
        each(text, |line| format!("[rank3]: {line}"))
    }),
    form("mpirun-tag", |text| {
        each(text, |line| format!("[1,3]<stderr>:{line}"))
    }),
    form("mpirun-tag5", |text| {
        each(text, |line| {
            format!("[prterun-node01-4242@1,3]<stderr>: {line}")
        })
    }),
    form("srun-label", |text| each(text, |line| format!("3: {line}"))),
    form("pdsh", |text| each(text, |line| format!("node07: {line}"))),
    form("k8s-mpi", |text| {
        each(text, |line| format!("worker-3 (stderr): {line}"))
    }),
    form("ansi-raw", |text| {
        each(text, |line| format!("\u{1b}[31m{line}\u{1b}[0m"))
    }),
    form("ansi-mid", ansi_in_the_middle),
    form("ansi-caret", |text| {
        each(text, |line| format!("[31m{line}[0m"))
    }),
    form("ansi-caret2", |text| {
        each(text, |line| format!("^[[31m{line}^[[0m"))
    }),
    form("smart-quotes", smart_quotes),
    form("quoted", |text| each(text, |line| format!("{:?},", line))),
    form("py-repr", |text| {
        format!("'{}'\n", text.trim_end().replace('\n', "\\n"))
    }),
    form("line-numbers", |text| {
        numbered(text, |number, line| format!("  {:>4} {line}", number + 511))
    }),
    form("line-numbers-colon", |text| {
        numbered(text, |number, line| format!("{}:{line}", number + 511))
    }),
    form("grep-file", |text| {
        numbered(text, |number, line| {
            format!("logs/rank3.log:{}:{line}", number + 511)
        })
    }),
    form("tabs", |text| each(text, tabbed)),
    form("nbsp", |text| text.replace(' ', "\u{a0}")),
    form("zero-width", |text| {
        text.replace('/', "/\u{200b}").replace(": ", ": \u{200b}")
    }),
    form("crlf", |text| text.replace('\n', "\r\n")),
    form("bom", |text| format!("\u{feff}{text}")),
    form("double-spaced", |text| text.replace('\n', "\n\n")),
];

const NANO: &str = "2026-01-02T03:04:05.123456789Z";

/// Each line that is not empty, written anew.
fn each(text: &str, write: impl Fn(&str) -> String) -> String {
    each_even_empty(text, |line| match line.trim().is_empty() {
        true => line.to_owned(),
        false => write(line),
    })
}

fn each_even_empty(text: &str, write: impl Fn(&str) -> String) -> String {
    text.lines().map(|line| write(line) + "\n").collect()
}

fn numbered(text: &str, write: impl Fn(usize, &str) -> String) -> String {
    let lines = text.lines().enumerate();
    lines.map(|(at, line)| write(at + 1, line) + "\n").collect()
}

/// A line of NCCL or UCX in its parts.
struct Frame<'l> {
    /// Host, process, device, place in the source.
    writer: &'l str,
    /// `NCCL WARN `, `UCX  ERROR `.
    level: &'l str,
    message: &'l str,
}

fn frame(line: &str) -> Frame<'_> {
    let levels = [
        "NCCL INFO ",
        "NCCL WARN ",
        "UCX  ERROR ",
        "UCX  WARN  ",
        "UCX  DIAG  ",
    ];
    let found = levels
        .iter()
        .filter_map(|level| line.find(level).map(|at| (at, level.len())))
        .min();
    let (at, length) = found.unwrap_or((0, 0));
    // A space before an indented row of NCCL's graph is its own.
    Frame {
        writer: &line[..at],
        level: &line[at..at + length],
        message: &line[at + length..],
    }
}

fn with_level_alone(line: &str) -> String {
    let Frame { level, message, .. } = frame(line);
    format!("{level}{message}")
}

/// Without `host:pid:tid `; what stands behind it stays.
fn without_writer(line: &str) -> String {
    let Frame {
        writer,
        level,
        message,
    } = frame(line);
    let kept: Vec<&str> = writer
        .split_inclusive(' ')
        .filter(|word| word.matches(':').count() != 2 || word.contains('.') || word.contains('-'))
        .collect();
    format!("{}{level}{message}", kept.concat())
}

/// Without a time in brackets, or as RFC 3339 has it, at the front.
fn without_time(line: &str) -> &str {
    let is_time = |word: &str| {
        word.len() > 5
            && word
                .bytes()
                .all(|b| b.is_ascii_digit() || b"-:.TZ+[] ".contains(&b))
    };
    if let Some((inner, rest)) = line
        .strip_prefix('[')
        .and_then(|rest| rest.split_once("] "))
        && is_time(inner)
    {
        return rest;
    }
    match line.split_once(' ') {
        Some((word, rest)) if is_time(word) && word.contains(':') => rest,
        _ => line,
    }
}

fn html_escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;")
        .replace('"', "&quot;")
        .replace('\'', "&#39;")
}

/// As a terminal breaks lines: hard at this column.
fn wrapped(text: &str, width: usize) -> String {
    let pieces = |line: &str| {
        let letters: Vec<char> = line.chars().collect();
        let pieces: Vec<String> = letters
            .chunks(width)
            .map(|piece| piece.iter().collect())
            .collect();
        pieces.join("\n")
    };
    each(text, pieces)
}

/// As a mail program breaks lines: between words.
fn wrapped_at_words(text: &str, width: usize) -> String {
    let pieces = |line: &str| {
        let mut all = String::new();
        let mut length = 0;
        for word in line.split(' ') {
            if length > 0 && length + 1 + word.len() > width {
                all.push('\n');
                length = 0;
            } else if !all.is_empty() {
                all.push(' ');
                length += 1;
            }
            all.push_str(word);
            length += word.len();
        }
        all
    };
    each(text, pieces)
}

fn ansi_in_the_middle(text: &str) -> String {
    each(text, |line| match line.find(' ') {
        Some(at) => format!("\u{1b}[36m{}\u{1b}[0m{}", &line[..at], &line[at..]),
        None => line.to_owned(),
    })
}

fn smart_quotes(text: &str) -> String {
    let mut is_open = false;
    text.chars()
        .map(|letter| match letter {
            '\'' => '\u{2019}',
            '"' => {
                is_open = !is_open;
                match is_open {
                    true => '\u{201c}',
                    false => '\u{201d}',
                }
            }
            other => other,
        })
        .collect()
}

fn tabbed(line: &str) -> String {
    line.split(' ')
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join("\t")
}
