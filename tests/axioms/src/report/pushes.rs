//! The tables of pushes, one-pass and exchange. Uses `kernels`.

use allfold_kernels::protocol::abi::{Algorithm, InputMode, Phase};

use super::{judgement, line, spelled, wrapped};
use crate::kernels::pushes::{Row, judge, mutants, orders, wrong};
use crate::kernels::{Judgement, SHAPES, Weakened, gives, judge as judge_cell, rows, trace, wrong as wrong_cell};

/// What stands before the tables of pushes.
const PUSHES: &str = include_str!("pushes.md");
/// What stands before those of one-pass and exchange.
const GIVES: &str = include_str!("gives.md");

const STAGED: [InputMode; 2] = [InputMode::Memcpy, InputMode::Copied];

/// Both sections.
pub fn sections(page: &mut String) {
    page.push_str(PUSHES);
    pushes(page);
    page.push_str(GIVES);
    given(page);
}

fn pushes(page: &mut String) {
    let between = |algorithm, kept| rows::between(algorithm, &STAGED, kept);
    let [one_block, two_blocks] = rows::silent();
    let both = Algorithm::OF_ANY_PROTOCOL;
    let cases = [
        ("one algorithm, one grid; each call begins a generation", rows::plain(1)),
        ("the same; two calls share a generation", rows::plain(2)),
        (
            "the same; two or three share one, and in between there are only a call that announces and the next",
            [2, 3].map(|together| rows::fewest(rows::ROUND, together)).concat(),
        ),
        ("algorithms and grids that change", rows::mixed()),
        ("a call of another algorithm in between", rows::others()),
        ("i32, each word beside a flag: alone, and where f32 landed or will land", rows::integers()),
        ("no call announces itself, one block", vec![one_block]),
        ("no call announces itself, two blocks", vec![two_blocks]),
        ("a staged one-shot, a push, a staged one-shot; two banks by parity", between(Algorithm::OneShot, false)),
        ("the same; one bank, and an end barrier", between(Algorithm::OneShot, true)),
        ("the same; two banks in turn, by staged calls", rows::banks_in_turn()),
        ("a staged two-shot, a push, a staged two-shot; two banks by parity", between(Algorithm::TwoShot, false)),
        ("the same; one bank, and nothing at the end", between(Algorithm::TwoShot, true)),
        ("staged calls in a row, a push, the first again; one bank", rows::kept()),
        (
            "registered one-shots and two-shots around a push",
            both.into_iter().flat_map(|algorithm| rows::between(algorithm, &[InputMode::Registered], true)).collect(),
        ),
    ];
    line(page, "| calls | rows | verdict |\n|---|---|---|");
    for (name, rows) in cases {
        line(page, &format!("| {name} | {} | {} |", rows.len(), all(&rows)));
    }
    let finding = "**That each new generation is announced makes a push sound with nothing assumed, whatever other \
                   calls come in between. It does not protect a staging bank: with two in turn, a push in between \
                   leaves a peer's loads of the bank to the hardware, so a communicator that pushes keeps one, which \
                   an end barrier or the middle barrier protects.**";
    line(page, &format!("\n{}\n", wrapped(finding)));

    let ask = "What puts the marker before the next push there is the announcement, the wait for it, and that there \
               are generations enough. Each is weakened in rows in which each call begins a generation, so that they \
               have the least time, and moves as few packs as it can, so that assumptions may be asked for.";
    line(page, &format!("{}\n\n| what is weakened | one-shot-push | two-shot-push |\n|---|---|---|", wrapped(ask)));
    for (name, weakened) in orders() {
        let judged = [Algorithm::OneShotPush, Algorithm::TwoShotPush].map(|algorithm| {
            let rows = rows::small(algorithm, weakened.generations());
            once(rows.iter().map(|row| judge(row, weakened)))
        });
        line(page, &format!("| {name} | {} |", judged.join(" | ")));
    }
    let why = "**Neither half of the announcement can be weaker: a volatile store leaves its half to the end of a \
               kernel, a volatile poll to the hardware's loads. It takes both where nobody waits, or where there are \
               two generations and one comes round before it has been waited for. With one, a peer may push before a \
               rank has put the marker back, whatever is assumed. Three would do; there are four, a power of two, so \
               that no wrap of a cursor skips any.**";
    line(page, &format!("\n{}\n", wrapped(why)));

    line(page, "| what else is weakened | one-shot-push | two-shot-push |\n|---|---|---|");
    for (name, weakened) in mutants() {
        let fate = |algorithm: Algorithm| {
            let mut rows = rows::plain(1).into_iter().filter(|row| row.calls[0].algorithm == algorithm);
            if rows.any(|row| wrong(&row, weakened, &[]).is_some()) { "goes wrong" } else { "no difference" }
        };
        let (one_shot, two_shot) = (fate(Algorithm::OneShotPush), fate(Algorithm::TwoShotPush));
        line(page, &format!("| {name} | {one_shot} | {two_shot} |"));
    }
    let why = "**The marker may go back with an ordinary store: the poll before it is of the same place, and the \
               announcement after it publishes it. Only a two-shot pushes sums.** The announcement stands before \
               anything that its block pushes, and publishes the clears of the calls before; those are all that it is \
               for.";
    line(page, &format!("\n{}", wrapped(why)));
}

/// The judgements of `rows`, each once.
fn all(rows: &[Row]) -> String {
    once(rows.iter().map(|row| judge(row, Weakened::Nothing)))
}

fn once(judgements: impl Iterator<Item = Judgement>) -> String {
    let mut found: Vec<String> = judgements.map(|found| judgement(&found)).collect();
    found.sort();
    found.dedup();
    found.join("; ")
}

fn given(page: &mut String) {
    line(
        page,
        "| algorithm | the caller's buffer | as it is | start volatile | middle volatile | end volatile |\n|---|---|---|---|---|---|",
    );
    for cell in gives::cells() {
        let volatile = |phase| match gives::barriers(&cell).contains(&phase) {
            true => judgement(&judge_cell(&gives::volatile(&cell, phase))),
            false => "none there".into(),
        };
        let cells = Phase::BARRIERS.map(volatile).join(" | ");
        let (algorithm, ours) = (spelled(cell.algorithm), judgement(&judge_cell(&cell)));
        line(page, &format!("| {algorithm} | {} | {ours} | {cells} |", cell.usage));
    }
    let (mut killed, mut spared) = (0, 0);
    for (cell, weakened) in
        gives::cells().iter().flat_map(|cell| gives::mutants(cell).into_iter().map(move |w| (cell, w)))
    {
        let changes = |&shape: &_| trace(cell, weakened, shape).0 != trace(cell, Weakened::Nothing, shape).0;
        match (SHAPES.iter().any(changes), wrong_cell(cell, weakened, &[]).is_some()) {
            (true, true) => killed += 1,
            (true, false) => spared += 1,
            (false, _) => {}
        }
    }
    let text = format!(
        "**No barrier is spare.** Mutants of these forms (release or acquire volatile, both of device scope, nobody waits in \
         a barrier, a block sync left out): {killed} go wrong, {spared} make no difference.",
    );
    line(page, &format!("\n{}\n", wrapped(&text)));
}
