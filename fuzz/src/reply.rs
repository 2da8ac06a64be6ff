//! One reply of a recorded machine, in place of which any bytes come.

use std::fs::File;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use rdma_doctor::fact::Facts;
use rdma_doctor::probe;
use rdma_doctor::source::recording::{Recording, RecordingBudget};
use rdma_doctor::source::wire::{Header, Line};
use rdma_doctor::source::{Answer, Question, Reply};

/// Replies of one kind.
pub struct Family {
    /// The recording in `fixtures` that has such replies.
    pub base: &'static str,
    /// The probes whose replies are kept; the others have none, which makes a run short.
    pub probes: &'static [&'static str],
    /// Whether a reply to this question is of the kind.
    pub is_of: fn(&Question) -> bool,
    /// Questions that the recording may lack.
    pub more: fn() -> Vec<Question>,
    /// Whether the reply is text, else bytes.
    pub text: bool,
    /// What is kept of the base, and the questions of the kind.
    pub kept: OnceLock<(Vec<Line>, Vec<Question>)>,
}

/// The first byte chooses the question, the others are its reply; where there is only one question, all are.
pub fn run(family: &Family, bytes: &[u8]) {
    let (kept, questions) = family.kept.get_or_init(|| load(family));
    let (question, reply) = match (&**questions, bytes) {
        ([question], reply) => (question, reply),
        (questions, [first, reply @ ..]) => {
            (&questions[usize::from(*first) % questions.len()], reply)
        }
        (_, []) => return,
    };
    let answer = match family.text {
        true => Answer::Text(String::from_utf8_lossy(reply).into()),
        false => Answer::Bytes(reply.into()),
    };
    let mut recording = Recording::new(Header::default());
    let is_other =
        |line: &&Line| !matches!(line, Line::Reply { question: asked, .. } if asked == question);
    kept.iter()
        .filter(is_other)
        .for_each(|line| recording.add(line.clone()));
    recording.add(Line::Reply {
        probe: "*".into(),
        question: question.clone(),
        repeat: 0,
        reply: Reply {
            at: 0,
            said: Ok(answer),
        },
    });
    let mut facts = Facts::new();
    probe::establish(&recording, &mut facts);
    super::without_a_bug(&facts);
}

/// The base's replies that are kept, and its questions of the family. With `FUZZ_SEEDS=DIR`, its replies to them are written there.
fn load(family: &Family) -> (Vec<Line>, Vec<Question>) {
    let path = super::fixtures().join(family.base);
    let files = |path: &Path| Ok((File::open(path)?, 0));
    let base = Recording::open_with(&path, &files, RecordingBudget::default())
        .expect("the fixture is a recording");
    let all = base.to_lines();
    let mut questions = Vec::new();
    let mut seeds = Vec::new();
    for line in &all {
        if let Line::Reply {
            question, reply, ..
        } = line
            && (family.is_of)(question)
            && !questions.contains(question)
        {
            seeds.push((questions.len(), reply.clone()));
            questions.push(question.clone());
        }
    }
    for question in (family.more)() {
        if !questions.contains(&question) {
            questions.push(question);
        }
    }
    assert!(!questions.is_empty(), "{} has no such reply", family.base);
    if let Some(folder) = std::env::var_os("FUZZ_SEEDS") {
        let one = questions.len() == 1;
        for (at, reply) in seeds {
            let said: Arc<[u8]> = match reply.said {
                Ok(Answer::Text(text)) => text.as_bytes().into(),
                Ok(Answer::Bytes(bytes)) => bytes,
                _ => continue,
            };
            let mut seed = if one { Vec::new() } else { vec![at as u8] };
            seed.extend(&*said);
            let written = std::fs::write(Path::new(&folder).join(format!("seed-{at}")), seed);
            written.expect("the folder of the seeds can be written");
        }
    }
    let of_these = |line: &Line| matches!(line, Line::Reply { probe, .. } if family.probes.contains(&&**probe));
    (all.into_iter().filter(of_these).collect(), questions)
}
