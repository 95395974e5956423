//! What a test runs on, by where it is and what it uses.

/// What a property runs on: it says in its first lines on what it does not, and `list` has those that processes run.
pub fn of_property(name: &str, body: &str, list: &str) -> String {
    let in_list = |of: &str| {
        let names = list.split_once(of).and_then(|(_, rest)| rest.split_once("];")).map_or("", |(names, _)| names);
        names.contains(&format!("\"{name}\""))
    };
    let skips = |condition: &str| {
        let text = format!("if {condition} {{");
        body.split_once(&text).is_some_and(|(_, rest)| rest.trim_start().starts_with("return Ok(Outcome::Skipped("))
    };
    let wants = |gpus: &str| body.contains(&format!("bench.machine.devices().filter(|_| {gpus}) else {{"));
    let [gpu_processes, gpus_of_one] = ["bench.machine.in_processes()", "!bench.machine.in_processes()"].map(wants);
    let of_processes = skips("!bench.machine.in_processes()") || gpu_processes;
    let not_on_cpu = skips("bench.on_cpu()") || gpu_processes || gpus_of_one;
    let not_on_threads = not_on_cpu || of_processes || skips("bench.on_cpu() && !bench.machine.in_processes()");
    let not_gpu_processes = skips("bench.machine.in_processes() && !bench.on_cpu()");
    let [every, of_gpus] = [in_list(" OF_PROCESSES:"), in_list(" OF_GPU_PROCESSES:")];
    let runs = [
        (!not_on_threads, "CPU threads"),
        (every && !not_on_cpu, "CPU processes"),
        (!of_processes, "GPUs"),
        ((every || of_gpus) && !not_gpu_processes, "GPU processes"),
    ];
    runs.into_iter().filter_map(|(does, what)| does.then_some(what)).collect::<Vec<_>>().join(", ")
}

/// What a test of the file at `path` runs on. The first line that fits counts.
pub fn of_test(path: &str, text: &str) -> &'static str {
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    let folders = [
        ("tests/model/", "model checker"),
        ("tests/axioms/", "axioms of the PTX memory model"),
        ("tests/src/", "the suite itself"),
        ("xtask/src/audit/", "PTX text"),
        ("xtask/src/catalogue/toolchain", "source text"),
        ("xtask/", "the workspace's tools"),
        ("host/tests/", "the program, in processes"),
        ("host/src/bin/", "the program's parts"),
        ("host/benches/", "scripts"),
        ("host/src/cuda/", "host code for GPUs, without one"),
        ("host/", "the library's parts"),
        ("examples/", "the examples"),
    ];
    match folders.iter().find(|(folder, _)| path.starts_with(folder)) {
        Some((_, what)) => what,
        None if has(&["host/ptx"]) => "PTX text",
        None if has(&["soft::install"]) => "GPUs of software, and on GPUs by `suite --faults`",
        None if has(&["mod meet;"]) => "CPU processes",
        None if has(&["mod lone;"]) => "one rank of the kernels' source, alone",
        None if has(&["connect_cpu", "Communicator::cpu"]) => "CPU threads",
        None => "pure functions",
    }
}
