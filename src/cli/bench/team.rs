//! Measurements of collectives over several nodes: what each node has is put together, each starts its own ranks, and rank 0 gathers what became of them.

use std::cell::Cell;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::measuring::{self, Chosen, MeasureArgs};
use super::pairs::rails;
use crate::bench::plan::{Backend, NAME, Plan, Point, RankPlace, Run};
use crate::bench::reply::{Ended, RankReply};
use crate::bench::results::Results;
use crate::bench::scope::{Scope, Scopes};
use crate::cli::together::session::{self, Joined};
use crate::cli::together::{ExitOn, TogetherArgs};
use crate::cli::{input, output, record};
use crate::cluster::exchange::Hears;
use crate::exit::Exit;
use crate::fact::{Facts, Id};
use crate::nccl_log::digest::Digest;
use crate::source::live::session::Session;
use crate::source::recording::Recording;
use crate::source::wire::{self, Line};
use crate::source::worker::Progress;
use crate::source::worker::ranks::{self, Abroad, Part, Running};
use crate::source::{Answer, Question, Reply};

/// How long a node may take to record itself before it says what it has.
const CARDS: Duration = Duration::from_secs(60);
/// How long nodes wait for what rank 0 does next: it may measure by itself, or judge. Where it is gone they know at once.
const NEXT: Duration = Duration::from_secs(3600);
/// How long nodes wait for each other where nothing is to be done, beyond the time that a run may take.
const SLACK: Duration = Duration::from_secs(20);

/// What came of a measurement.
pub enum Made {
    /// The recording of this node with all that was measured; why nothing was, where nothing was; and whom to tell the verdict.
    Here(Box<Recording>, Option<String>, Verdict),
    /// Rank 0 has it, or another process of this node acts for it: how this one ends.
    Elsewhere(Exit),
}

/// How the verdict comes to all that took part: they wait for it, since some launchers end all where one ends.
#[derive(Clone)]
pub struct Verdict {
    /// `None` where the node is alone.
    session: Option<Arc<Session>>,
    exit_on: ExitOn,
}

impl Verdict {
    /// Of a node that is alone.
    pub fn alone() -> Self {
        Verdict {
            session: None,
            exit_on: ExitOn::Rank0,
        }
    }

    /// Rank 0 says it.
    pub fn say(&self, exit: Exit) {
        if let Some(session) = &self.session {
            let code = json!(exit.code());
            // Who is gone does not hear it, and rank 0 has said it to who started it.
            let _ = session.exchange("verdict", &[], Hears::Host, SLACK, code);
        }
    }

    /// The others hear it: how they end.
    fn hear(&self) -> Exit {
        let Some(session) = &self.session else {
            return Exit::Healthy;
        };
        let heard = session.exchange("verdict", &[], Hears::Host, NEXT, Value::Null);
        let code = heard.ok().and_then(|all| all.came.get(&0)?.as_u64());
        self.exit_on.elsewhere(code)
    }

    /// The end of a measurement: rank 0 has it.
    fn made(self, recording: Recording, why: Option<String>) -> Made {
        let leads = self
            .session
            .as_ref()
            .is_none_or(|session| session.rank() == 0);
        if leads {
            return Made::Here(Box::new(recording), why, self);
        }
        if let Some(why) = why {
            measuring::say(&format!("nothing was measured: {why}"));
        }
        Made::Elsewhere(self.hear())
    }
}

/// What a node has for the measurement.
#[derive(Serialize, Deserialize)]
struct Card {
    /// Why it has nothing.
    #[serde(default)]
    unable: Option<String>,
    backend: Option<Backend>,
    library: Option<String>,
    #[serde(default)]
    ranks: Vec<RankPlace>,
}

/// The nodes that measure together.
pub struct Team {
    session: Arc<Session>,
    /// Their ranks in the session, in order.
    members: Vec<u64>,
    /// How many ranks of the measurement each has.
    counts: Vec<usize>,
    /// This node's place among them.
    own: usize,
    /// How many runs were led, or followed.
    runs: Cell<u64>,
    /// How the verdict comes to all.
    pub verdict: Verdict,
}

/// How a measurement begins.
pub enum Start {
    /// The node is alone.
    Alone,
    /// It is over for this process: another one of its node acts, or the nodes cannot measure together.
    Over(Made),
    /// They can.
    Ready(Box<Ready>),
}

/// What there is before the first run.
pub struct Ready {
    /// The recording of this node.
    pub recording: Recording,
    /// The nodes.
    pub team: Team,
    /// All ranks.
    pub chosen: Chosen,
    /// This node's ranks.
    pub own: Chosen,
    /// Who was expected and did not come, and why.
    pub silent: Vec<(String, String)>,
}

/// Comes together with the nodes of the launch, where there are several. `wishes` are those of who started this, by the node's facts; or why nothing can be
/// measured here.
///
/// # Errors
///
/// The launch is not understood, nodes do not come together, or wishes do not.
pub fn start(
    who: &MeasureArgs,
    together: &TogetherArgs,
    wishes: impl FnOnce(&Facts, Id) -> Result<MeasureArgs, String>,
) -> anyhow::Result<Start> {
    let joined = match session::part(together)? {
        session::Part::Alone => return Ok(Start::Alone),
        session::Part::Idle => return Ok(Start::Over(Made::Elsewhere(Exit::Healthy))),
        session::Part::Joined(joined) => *joined,
    };
    let Joined { session, silent } = joined;
    let session = Arc::new(session);
    for silent in &silent {
        if session.rank() == 0 {
            measuring::say(&format!("{} takes no part: {}", silent.host, silent.why));
        }
    }
    let recording = measuring::node_recording(who)?;
    let own = own(&recording, wishes, &session)?;
    let verdict = Verdict {
        session: Some(Arc::clone(&session)),
        exit_on: together.exit_on,
    };
    Ok(match Team::of(&session, &verdict, own)? {
        Ok((team, chosen, own)) => Start::Ready(Box::new(Ready {
            recording,
            team,
            chosen,
            own,
            silent: silent.into_iter().map(|one| (one.host, one.why)).collect(),
        })),
        Err(why) => Start::Over(verdict.made(recording, Some(why))),
    })
}

/// What this recording has; where there is none, what is measured.
///
/// # Errors
///
/// The recording cannot be read, or nothing be measured.
pub fn read_or_measured(
    recording: Option<&Path>,
    measured: impl FnOnce() -> anyhow::Result<Made>,
) -> anyhow::Result<Made> {
    match recording {
        Some(path) => Ok(Verdict::alone().made(input::open(&[path])?.remove(0), None)),
        None => measured(),
    }
}

/// Records this node and measures, with the nodes of the launch where there are several. `points` says which operations, by who takes part;
/// `in_parts` whether the last of them is measured in each node and between them too.
///
/// # Errors
///
/// The launch is not understood, nodes do not come together, or wishes do not.
pub fn measured(
    who: &MeasureArgs,
    together: &TogetherArgs,
    deadline: Duration,
    in_parts: bool,
    points: impl Fn(&Chosen) -> anyhow::Result<Vec<Point>>,
) -> anyhow::Result<Made> {
    let ready = match start(who, together, |_, _| Ok(who.clone()))? {
        Start::Over(made) => return Ok(made),
        Start::Ready(ready) => *ready,
        Start::Alone => {
            let (recording, why) = measuring::measured(who, |recording, chosen| {
                let points = points(&chosen)?;
                if let Err(why) = measuring::hold(&chosen, &points) {
                    return Ok(Some(why));
                }
                measuring::make(recording, &chosen.plan(points, 1), deadline);
                Ok(None)
            })?;
            return Ok(Verdict::alone().made(recording, why));
        }
    };
    let Ready {
        mut recording,
        team,
        chosen,
        own,
        silent: _,
    } = ready;
    let session = Arc::clone(&team.session);
    let points = points(&chosen)?;
    let unable = measuring::hold(&own, &points).err();
    if let Some(why) = team.unable("ready", unable)? {
        return Ok(team.verdict.made(recording, Some(why)));
    }
    let last = points.last().cloned();
    let plan = team.same("plan", &chosen.plan(points, 1))?;
    let lines = team.make(&recording, &plan, "whole", deadline)?;
    let mut scopes = Scopes::default();
    // What did not end well in the whole has no parts to compare.
    let well = lines.as_ref().is_some_and(|lines| ended_well(lines));
    let all = session.exchange("well", &[], Hears::Host, SLACK, json!(well && in_parts))?;
    let well = all.came.get(&0) == Some(&Value::Bool(true));
    if let Some(point) = last.filter(|_| well) {
        let point = Point {
            trials: point.trials.min(3),
            ..point
        };
        scopes = team.scopes(&recording, &plan, &own, &point, deadline)?;
    }
    output::progress(Progress::Done);
    recording.replace(NAME, Plan::question(), plan.to_value());
    for line in lines.into_iter().flatten() {
        recording.add(line);
    }
    if in_parts {
        scopes.whole = Results::read(&recording.of(NAME))
            .ok()
            .and_then(|results| Scope::of(&results, None));
        recording.add(reply(Scopes::question(), &scopes, recording.duration()));
    }
    recording.end();
    Ok(team.verdict.made(recording, None))
}

/// What this node has for the measurement.
fn own(
    recording: &Recording,
    wishes: impl FnOnce(&Facts, Id) -> Result<MeasureArgs, String>,
    session: &Session,
) -> anyhow::Result<Result<Chosen, String>> {
    let (facts, nodes) = input::facts(std::slice::from_ref(recording));
    let Some(&(_, node)) = nodes.first() else {
        return Ok(Err("the node says nothing of itself".into()));
    };
    let who = match wishes(&facts, node) {
        Ok(who) => who,
        Err(why) => return Ok(Err(why)),
    };
    let mut chosen = match measuring::choose(&facts, node, &who)? {
        Ok(chosen) => chosen,
        Err(why) => return Ok(Err(why)),
    };
    drop(facts);
    if chosen.backend == Backend::Tcp {
        // Sockets have addresses, which a person names by their interfaces.
        let is_address = |name: &String| name.parse::<std::net::IpAddr>().is_ok();
        let addresses = match who.device.iter().all(is_address) && !who.device.is_empty() {
            true => who.device.clone(),
            false => match rails::choose(recording, &who.device, session.address()) {
                Ok(rails) => rails.into_iter().map(|rail| rail.address).collect(),
                Err(why) => return Ok(Err(why)),
            },
        };
        for (rank, place) in chosen.ranks.iter_mut().enumerate() {
            place.device = addresses.get(rank % addresses.len().max(1)).cloned();
        }
    }
    Ok(Ok(chosen))
}

impl Team {
    /// Puts together what all nodes have: the nodes, all ranks, and this node's. Why they cannot measure together, where they cannot.
    fn of(
        session: &Arc<Session>,
        verdict: &Verdict,
        own: Result<Chosen, String>,
    ) -> anyhow::Result<Result<(Self, Chosen, Chosen), String>> {
        let card = match own {
            Ok(chosen) => Card {
                unable: None,
                backend: Some(chosen.backend),
                library: chosen.library,
                ranks: chosen.ranks,
            },
            Err(why) => Card {
                unable: Some(why),
                backend: None,
                library: None,
                ranks: Vec::new(),
            },
        };
        let value = serde_json::to_value(&card)?;
        let all = session.exchange("chosen", &[], Hears::Everyone, CARDS, value)?;
        let name = |rank: u64| {
            let name = session.names().get(&rank).cloned();
            name.unwrap_or_else(|| format!("rank {rank}"))
        };
        if let Some((rank, why)) = all.missing.iter().next() {
            return Ok(Err(format!("{}: {why}", name(*rank))));
        }
        let mut team = Team {
            session: Arc::clone(session),
            members: Vec::new(),
            counts: Vec::new(),
            own: 0,
            runs: Cell::new(0),
            verdict: verdict.clone(),
        };
        let mut whole: Option<Chosen> = None;
        let mut mine = None;
        for (node, (rank, value)) in all.came.into_iter().enumerate() {
            let card: Card = serde_json::from_value(value).context("what a node has")?;
            if let Some(why) = card.unable {
                return Ok(Err(format!("{}: {why}", name(rank))));
            }
            let backend = card.backend.context("a node without a backend")?;
            let at = |place: RankPlace| RankPlace {
                node: node as u64,
                ..place
            };
            let ranks: Vec<RankPlace> = card.ranks.into_iter().map(at).collect();
            if rank == session.rank() {
                team.own = node;
                mine = Some(Chosen {
                    backend,
                    library: card.library.clone(),
                    ranks: ranks.clone(),
                });
            }
            team.members.push(rank);
            team.counts.push(ranks.len());
            match &mut whole {
                None => {
                    whole = Some(Chosen {
                        backend,
                        library: card.library,
                        ranks,
                    });
                }
                Some(whole) if whole.backend != backend => {
                    return Ok(Err(format!(
                        "{} measures with {}, {} with {}: name one with --backend",
                        name(0),
                        whole.backend.name(),
                        name(rank),
                        backend.name()
                    )));
                }
                Some(whole) => whole.ranks.extend(ranks),
            }
        }
        let (Some(whole), Some(mine)) = (whole, mine) else {
            return Ok(Err("this node takes no part".into()));
        };
        Ok(Ok((team, whole, mine)))
    }

    fn name(&self, node: usize) -> String {
        let rank = self.members.get(node).copied().unwrap_or(0);
        let name = self.session.names().get(&rank).cloned();
        name.unwrap_or_else(|| format!("rank {rank}"))
    }

    /// Whether one of the nodes cannot go on, and why.
    fn unable(&self, step: &str, own: Option<String>) -> anyhow::Result<Option<String>> {
        let all = (self.session).exchange(step, &[], Hears::Everyone, SLACK, json!(own))?;
        let name = |rank: &u64| self.session.names().get(rank).cloned().unwrap_or_default();
        let gone = all.missing.iter().next();
        let unable = all
            .came
            .iter()
            .find_map(|(rank, why)| Some((rank, why.as_str()?)));
        Ok(match (gone, unable) {
            (Some((rank, why)), _) => Some(format!("{}: {why}", name(rank))),
            (None, Some((rank, why))) => Some(format!("{}: {why}", name(rank))),
            (None, None) => None,
        })
    }

    /// The plan of rank 0: what the buffers hold follows from its seed.
    fn same(&self, step: &str, plan: &Plan) -> anyhow::Result<Plan> {
        let all = (self.session).exchange(step, &[], Hears::Host, SLACK, plan.to_value())?;
        let value = all.came.get(&0).context("rank 0's plan")?;
        Plan::from_value(value).map_err(|what| anyhow::anyhow!("rank 0's plan: {what}"))
    }

    /// The numbers of this node's ranks, where each node has so many.
    fn range(&self, counts: &[usize]) -> Range<usize> {
        let first: usize = counts.iter().take(self.own).sum();
        first..first + counts.get(self.own).copied().unwrap_or(0)
    }

    /// Makes the runs of a plan whose ranks are all nodes' in their order; gives all lines to rank 0, and `None` to the others.
    fn make(
        &self,
        recording: &Recording,
        plan: &Plan,
        scope: &str,
        deadline: Duration,
    ) -> anyhow::Result<Option<Vec<Line>>> {
        let mut all = Vec::new();
        for (number, run) in plan.runs.iter().enumerate() {
            let name = format!("{scope} {number}");
            let came = self.one(recording, plan, *run, &name, deadline, |step| {
                output::progress(Progress::Waiting(&[&format!("{scope}: {step}")]));
            })?;
            all.extend(came.into_iter().flatten());
        }
        Ok(self.leads().then_some(all))
    }

    /// Makes one run.
    fn one(
        &self,
        recording: &Recording,
        plan: &Plan,
        run: Run,
        name: &str,
        deadline: Duration,
        mut progress: impl FnMut(&str),
    ) -> anyhow::Result<Option<Vec<Line>>> {
        let mut counts = vec![0; self.members.len()];
        for place in &plan.ranks {
            let node = usize::try_from(place.node).ok();
            if let Some(count) = node.and_then(|node| counts.get_mut(node)) {
                *count += 1;
            }
        }
        let how = Running {
            started_ns: recording.header.boottime_ns,
            deadline,
            base: &[],
            program: None,
        };
        // All begin together: the time of a run is counted from here.
        self.unable(&format!("{name} begin"), None)?;
        let link = Arc::new(Link::new(self, name, &counts, deadline));
        let part = Part {
            own: self.range(&counts),
            abroad: Arc::clone(&link) as Arc<dyn Abroad>,
        };
        let lines = ranks::run_part(&how, plan, run, Some(&part), |rank, step| {
            if rank == 0 && self.leads() {
                progress(step);
            }
        });
        let came = self.gather(name, plan, run, &counts, &lines, deadline)?;
        // All that watch have heard what there was to hear.
        self.session.end(&link.watched(), Value::Null);
        Ok(came)
    }

    /// Those of these ranks that are on this node.
    pub fn own_of(&self, chosen: &Chosen) -> Chosen {
        let own = self.own as u64;
        let ranks = chosen.ranks.iter().filter(|place| place.node == own);
        Chosen {
            ranks: ranks.cloned().collect(),
            ..chosen.clone()
        }
    }

    /// Whether this is rank 0, which says what is done.
    pub fn leads(&self) -> bool {
        self.session.rank() == 0
    }

    /// Makes a run of a plan that rank 0 alone has: the others follow.
    ///
    /// # Errors
    ///
    /// A node is gone.
    pub fn lead(
        &self,
        recording: &Recording,
        plan: &Plan,
        run: Run,
        deadline: Duration,
        progress: impl FnMut(&str),
    ) -> anyhow::Result<Vec<Line>> {
        let number = self.number();
        let told = json!({ "plan": plan, "run": run });
        self.next(number, told)?;
        let name = format!("led {number}");
        let lines = self.one(recording, plan, run, &name, deadline, progress)?;
        lines.context("rank 0 leads")
    }

    /// Says that no further run comes.
    ///
    /// # Errors
    ///
    /// The session is over.
    pub fn over(&self) -> anyhow::Result<()> {
        self.next(self.number(), Value::Null).map(|_| ())
    }

    /// Makes the runs that rank 0 says, until there are no more, and waits for its verdict: how this process ends.
    ///
    /// # Errors
    ///
    /// Rank 0 is gone.
    pub fn follow(&self, recording: &Recording, deadline: Duration) -> anyhow::Result<Exit> {
        loop {
            let number = self.number();
            let mut told = self.next(number, Value::Null)?;
            if told.is_null() {
                return Ok(self.verdict.hear());
            }
            let plan = Plan::from_value(&told["plan"]);
            let plan = plan.map_err(|what| anyhow::anyhow!("rank 0's plan: {what}"))?;
            let run: Run = serde_json::from_value(told["run"].take())?;
            let name = format!("led {number}");
            self.one(recording, &plan, run, &name, deadline, |_| {})?;
        }
    }

    fn number(&self) -> u64 {
        self.runs.replace(self.runs.get() + 1)
    }

    fn next(&self, number: u64, value: Value) -> anyhow::Result<Value> {
        let step = format!("next {number}");
        let mut all = (self.session).exchange(&step, &[], Hears::Host, NEXT, value)?;
        Ok(all.came.remove(&0).unwrap_or(Value::Null))
    }

    /// The recordings of all other nodes as text, by their names, at rank 0.
    ///
    /// # Errors
    ///
    /// Rank 0 is gone.
    pub fn recordings(&self, own: &Recording) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
        let text = match self.leads() {
            true => String::new(),
            false => record::to_text(own, None),
        };
        let all = (self.session).exchange("recordings", &[], Hears::Host, NEXT, json!(text))?;
        let mut given = Vec::new();
        for (rank, value) in all.came.into_iter().filter(|(rank, _)| *rank != 0) {
            if let (Some(name), Value::String(text)) = (self.session.names().get(&rank), value) {
                given.push((name.clone(), text.into_bytes()));
            }
        }
        Ok(given)
    }

    /// The lines of a run of all nodes, at rank 0.
    fn gather(
        &self,
        name: &str,
        plan: &Plan,
        run: Run,
        counts: &[usize],
        lines: &[Line],
        deadline: Duration,
    ) -> anyhow::Result<Option<Vec<Line>>> {
        let own: Vec<String> = lines.iter().filter_map(wire::write_line).collect();
        let step = format!("{name} replies");
        let wait = deadline + SLACK;
        let all = (self.session).exchange(&step, &[], Hears::Host, wait, json!(own))?;
        if self.session.rank() != 0 {
            return Ok(None);
        }
        let mut whole = Vec::new();
        let mut log: Option<Digest> = None;
        let mut at = 0;
        let mut first = 0;
        for (node, rank) in self.members.iter().enumerate() {
            let count = counts.get(node).copied().unwrap_or(0);
            let texts = all.came.get(rank).and_then(Value::as_array);
            let texts = texts.into_iter().flatten().filter_map(Value::as_str);
            let came: Vec<Line> = texts
                .filter_map(|text| wire::parse_line(text).ok())
                .collect();
            for number in first..first + count {
                let question = plan.question_of(run, number);
                let is = |line: &&Line| matches!(line, Line::Reply { question: q, .. } if *q == question);
                let line = came.iter().find(is).cloned();
                whole.push(line.unwrap_or_else(|| {
                    let why = all
                        .missing
                        .get(rank)
                        .map_or("nothing came of it", String::as_str);
                    let why = format!("{}: {why}", self.name(node));
                    reply(question, &stopped(why), at)
                }));
            }
            for line in &came {
                let Line::Reply {
                    question, reply, ..
                } = line
                else {
                    continue;
                };
                at = at.max(reply.at);
                if *question == plan.log_of(run)
                    && let Ok(Answer::Value(value)) = &reply.said
                    && let Ok(digest) = Digest::deserialize(&**value)
                {
                    match &mut log {
                        None => log = Some(digest),
                        Some(log) => log.join(digest),
                    }
                }
            }
            first += count;
        }
        whole.push(reply(plan.log_of(run), &log.unwrap_or_default(), at));
        Ok(Some(whole))
    }

    /// The same operation inside each node, and with one rank of each node: what both are worth alone.
    fn scopes(
        &self,
        recording: &Recording,
        plan: &Plan,
        own: &Chosen,
        point: &Point,
        deadline: Duration,
    ) -> anyhow::Result<Scopes> {
        let mut scopes = Scopes::default();
        let fit = |ranks: usize| Point {
            bytes: point.dtype.whole(point.bytes, ranks as u64),
            ..point.clone()
        };
        if self.counts.iter().any(|count| *count > 1) {
            let alone = RankPlace::default().node;
            let inside = Chosen {
                ranks: (own.ranks.iter().cloned())
                    .map(|place| RankPlace {
                        node: alone,
                        ..place
                    })
                    .collect(),
                ..own.clone()
            };
            let inside = inside.plan(vec![fit(own.ranks.len())], 1);
            self.unable("inside begin", None)?;
            let scope = self.inside(recording, &inside, deadline);
            let value = serde_json::to_value(&scope)?;
            let wait = deadline + SLACK;
            let all = (self.session).exchange("inside", &[], Hears::Host, wait, value)?;
            for value in all.came.into_values() {
                scopes.inside.extend(
                    serde_json::from_value::<Option<Scope>>(value)
                        .ok()
                        .flatten(),
                );
            }
            // One rank a node: what the network between them is worth to one.
            let mut ranks: Vec<RankPlace> = Vec::new();
            for place in &plan.ranks {
                if ranks.last().is_none_or(|last| last.node != place.node) {
                    ranks.push(place.clone());
                }
            }
            let count = ranks.len();
            let between = Chosen {
                ranks,
                ..own.clone()
            };
            let between = self.same("between plan", &between.plan(vec![fit(count)], 1))?;
            if let Some(lines) = self.make(recording, &between, "between", deadline)? {
                scopes.between =
                    results(&between, lines).and_then(|results| Scope::of(&results, None));
            }
        }
        Ok(scopes)
    }

    /// What this node's ranks reach alone.
    fn inside(&self, recording: &Recording, plan: &Plan, deadline: Duration) -> Option<Scope> {
        if plan.ranks.len() < 2 {
            return None;
        }
        let how = Running {
            started_ns: recording.header.boottime_ns,
            deadline,
            base: &[],
            program: None,
        };
        let run = *plan.runs.first()?;
        let lines = ranks::run(&how, plan, run, |_, _| {});
        let results = results(plan, lines)?;
        Scope::of(&results, Some(self.name(self.own)))
    }
}

/// Whether all ranks of these lines ended well.
fn ended_well(lines: &[Line]) -> bool {
    lines.iter().all(|line| match line {
        Line::Reply { reply, .. } => match &reply.said {
            Ok(Answer::Value(value)) => {
                let reply = RankReply::deserialize(&**value);
                reply.is_ok_and(|reply| reply.ended == Ended::Well) || value.get("ended").is_none()
            }
            _ => false,
        },
        _ => true,
    })
}

/// What the lines of a plan's runs say, as a recording of its own.
fn results(plan: &Plan, lines: Vec<Line>) -> Option<Results> {
    let mut recording = Recording::new(wire::Header::default());
    recording.add(reply(Plan::question(), &plan.to_value(), 0));
    for line in lines {
        recording.add(line);
    }
    Results::read(&recording.of(NAME)).ok()
}

fn reply(question: Question, value: &impl Serialize, at: u64) -> Line {
    // Names and numbers only: there is nothing that JSON cannot hold.
    let value = serde_json::to_value(value).unwrap_or_default();
    Line::Reply {
        probe: NAME.into(),
        question,
        repeat: 0,
        reply: Reply {
            at,
            said: Ok(Answer::Value(Arc::new(value))),
        },
    }
}

fn stopped(why: String) -> RankReply {
    RankReply {
        ended: Ended::Stopped { why },
        step: String::new(),
        points: Vec::new(),
        library: None,
        version: None,
        device: None,
        host: None,
        removed: Vec::new(),
        carried: None,
    }
}

/// The way from this node's ranks to those of the others, in one run.
struct Link {
    session: Arc<Session>,
    name: String,
    /// How many ranks each node has, by its rank in the session.
    counts: Vec<(u64, usize)>,
    ends: Instant,
}

impl Link {
    #[expect(clippy::disallowed_methods, reason = "keeps the run's time")]
    fn new(team: &Team, name: &str, counts: &[usize], deadline: Duration) -> Self {
        Link {
            session: Arc::clone(&team.session),
            name: name.to_owned(),
            counts: team
                .members
                .iter()
                .copied()
                .zip(counts.iter().copied())
                .collect(),
            ends: Instant::now() + deadline,
        }
    }

    fn watched(&self) -> String {
        format!("{} watch", self.name)
    }

    #[expect(clippy::disallowed_methods, reason = "keeps the run's time")]
    fn left(&self) -> Duration {
        self.ends.saturating_duration_since(Instant::now()) + SLACK
    }

    fn node(&self, rank: u64) -> String {
        self.session.names().get(&rank).cloned().unwrap_or_default()
    }
}

impl Abroad for Link {
    fn give(&self, number: u64, own: Vec<Value>) -> Result<Vec<Value>, String> {
        let step = format!("{} {number}", self.name);
        let value = Value::Array(own);
        let all = (self.session).exchange(&step, &[], Hears::Everyone, self.left(), value);
        let mut all = all.map_err(|error| error.to_string())?;
        if let Some((rank, why)) = all.missing.iter().next() {
            return Err(format!("{}: {why}", self.node(*rank)));
        }
        let mut values = Vec::new();
        for (rank, count) in &self.counts {
            match all.came.remove(rank) {
                Some(Value::Array(of_node)) if of_node.len() == *count => values.extend(of_node),
                _ => return Err(format!("{}: it gave something else", self.node(*rank))),
            }
        }
        Ok(values)
    }

    fn watch(&self) -> Option<String> {
        match self.session.watch(&self.watched(), self.left()) {
            Err(error) => Some(error.to_string()),
            Ok(all) => {
                let gone = all.missing.iter().next();
                let told = all.came.values().find_map(Value::as_str);
                gone.map(|(rank, why)| format!("{}: {why}", self.node(*rank)))
                    .or_else(|| told.map(str::to_owned))
            }
        }
    }

    fn tell(&self, why: &str) {
        let own = self.node(self.session.rank());
        self.session
            .end(&self.watched(), json!(format!("{why} (on {own})")));
    }
}
