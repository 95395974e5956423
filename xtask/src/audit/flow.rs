//! Which instructions are in a loop together. Knows no rule.

use super::parse::Kernel;

/// A kernel's instructions and the steps between them.
pub struct Flow {
    after: Vec<Vec<usize>>,
    before: Vec<Vec<usize>>,
}

impl Flow {
    /// Of `kernel`.
    pub fn of(kernel: &Kernel) -> Flow {
        let after: Vec<Vec<usize>> = (0..kernel.code.len()).map(|at| successors(kernel, at)).collect();
        let mut before = vec![Vec::new(); after.len()];
        for (at, nexts) in after.iter().enumerate() {
            nexts.iter().for_each(|&next| before[next].push(at));
        }
        Flow { after, before }
    }

    /// The instructions of the innermost loop that `at` is in, whatever is nested in it too; none when it is in no loop.
    pub fn innermost_loop(&self, at: usize) -> Vec<bool> {
        let mut found = vec![false; self.after.len()];
        let mut within = vec![true; self.after.len()];
        // A loop without its entries falls apart into what it repeats: the loops that are nested in it.
        while within[at] {
            let cycle = self.cycle(at, &within);
            if !cycle[at] {
                break;
            }
            let enters = |at: usize| at == 0 || self.before[at].iter().any(|&before| !cycle[before]);
            within = (0..cycle.len()).map(|at| cycle[at] && !enters(at)).collect();
            let whole = within == cycle;
            found = cycle;
            if whole {
                break;
            }
        }
        found
    }

    /// What can be reached from `at` and reaches it, in one step or more and never outside `within`.
    fn cycle(&self, at: usize, within: &[bool]) -> Vec<bool> {
        let (forward, backward) = (reached(&self.after, at, within), reached(&self.before, at, within));
        forward.iter().zip(backward).map(|(&forward, backward)| forward && backward).collect()
    }
}

/// Instructions that may be done right after `at`.
fn successors(kernel: &Kernel, at: usize) -> Vec<usize> {
    let instruction = &kernel.code[at];
    let label = |name: &str| kernel.labels.get(name.trim()).copied();
    let (mut next, leaves): (Vec<_>, bool) = match instruction.verb() {
        "bra" => (label(&instruction.operands).into_iter().collect(), true),
        "brx" => {
            let table = instruction.operands.split(',').nth(1).and_then(|name| kernel.tables.get(name.trim()));
            (table.into_iter().flatten().filter_map(|name| label(name)).collect(), true)
        }
        "ret" | "exit" | "trap" => (Vec::new(), true),
        _ => (Vec::new(), false),
    };
    if !leaves || instruction.guarded {
        next.push(at + 1);
    }
    next.retain(|&at| at < kernel.code.len());
    next
}

/// What can be reached from `start` in one step or more, never outside `within`.
fn reached(steps: &[Vec<usize>], start: usize, within: &[bool]) -> Vec<bool> {
    let mut seen = vec![false; steps.len()];
    let mut open = steps[start].clone();
    while let Some(at) = open.pop() {
        if within[at] && !std::mem::replace(&mut seen[at], true) {
            open.extend(&steps[at]);
        }
    }
    seen
}
