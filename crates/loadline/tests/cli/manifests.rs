//! `loadline agents manifest`: the start of agents by Kubernetes, Slurm and MPI.

use loadline_measure::gate::Baseline;
use loadline_measure::record::Environment;

use crate::agents::{PATIENT, PLAN, Site, one_line};
use crate::util::{Dir, Ended};

/// The words of a manifest for two agents that measure `target`.
fn manifest<'w>(launcher: &'w str, target: &'w str, coordinator: &'w str) -> Vec<&'w str> {
    let own = ["agents", "manifest", launcher, target, "--agents", "2"];
    let membership = ["--coordinator", coordinator, "--run", "nightly-7"];
    [&own[..], &membership, &PLAN, &["--duration", "1s"]].concat()
}

#[test]
fn job_for_kubernetes_starts_each_agent_once_and_holds_no_secret() {
    let dir = Dir::new();
    let words = manifest("--kubernetes", "redis://db", "redis://other");
    let text = dir.run(&words).succeeded();
    let job: serde_json::Value = serde_json::from_str(&text).unwrap();
    let at = |path: &str| {
        job.pointer(path)
            .unwrap_or_else(|| panic!("{path} of {text}"))
    };
    assert_eq!(at("/apiVersion"), "batch/v1");
    assert_eq!(at("/kind"), "Job");
    assert_eq!(at("/metadata/name"), "loadline-nightly-7");
    for (path, number) in [("completions", 2), ("parallelism", 2), ("backoffLimit", 0)] {
        assert_eq!(at(&format!("/spec/{path}")), number, "{path}");
    }
    assert_eq!(at("/spec/completionMode"), "Indexed");
    let pod = "/spec/template/spec";
    assert_eq!(at(&format!("{pod}/restartPolicy")), "Never");
    let apart = "affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution/0";
    assert_eq!(
        at(&format!("{pod}/{apart}/topologyKey")),
        "kubernetes.io/hostname"
    );
    assert_eq!(
        at(&format!("{pod}/{apart}/labelSelector/matchLabels")),
        at("/spec/template/metadata/labels")
    );
    assert_eq!(
        at(&format!("{pod}/containers/0/resources/requests/cpu")),
        "2"
    );
    assert_eq!(
        at(&format!("{pod}/volumes/0/secret/secretName")),
        "loadline-nightly-7"
    );
    let args = at(&format!("{pod}/containers/0/args")).as_array().unwrap();
    let args: Vec<&str> = args.iter().map(|word| word.as_str().unwrap()).collect();
    assert_eq!(args[..2], ["run", "redis://db"]);
    for word in [
        "--agents=2",
        "--keys=200",
        "--threads=1",
        "--secret-file=/etc/loadline/secret",
    ] {
        assert!(args.contains(&word), "{word} in {args:?}");
    }
    let refused = |words: &[&str], why: &str| dir.run(words).failed(64, why);
    refused(
        &manifest("--kubernetes", "redis://db", "redis://:pw@other"),
        "holds no password",
    );
    refused(
        &manifest("--kubernetes", "redis://:pw@db", "redis://other"),
        "holds no credentials",
    );
    refused(
        &manifest("--kubernetes", "embedded", "redis://other"),
        "cannot be shared",
    );
    refused(&["agents", "manifest", "redis://db"], "--kubernetes");
}

/// A baseline of two agents, without its runs.
fn baseline_of_two() -> String {
    let words = ["--workload=get", "--threads=1", "--rounds=10"];
    let plan = serde_json::json!({ "arguments": words, "agents": 2 });
    let hash = "0".to_owned();
    let here = Environment::default();
    Baseline::new("redis://db".to_owned(), hash, plan, here, Vec::new())
        .to_json()
        .unwrap()
}

/// The words that each command with agents is started by, of the command and in a container.
const STARTED: [(&[&str], &[&str]); 6] = [
    (
        &["capacity", "cluster://db:7000", "--slo", "p99<5ms"],
        &["capacity", "cluster://db:7000", "--slo=p99<5ms"],
    ),
    (
        &["compare", "redis://db", "redis://new", "--strict"],
        &["compare", "redis://db", "redis://new", "--strict"],
    ),
    (
        &["compare", "redis://db", "redis://new", "--workload=manager"],
        &["compare", "redis://db", "redis://new", "--workload=manager"],
    ),
    (
        &["baseline", "save", "b.json", "redis://db", "--runs", "9"],
        &["baseline", "save", "-", "redis://db", "--runs=9", "--quiet"],
    ),
    (
        &["gate", "b.json", "--limit", "get.p99<5ms"],
        &[
            "gate",
            "/etc/loadline-baseline/baseline.json",
            "--limit=get.p99<5ms",
        ],
    ),
    (
        &["gate", "b.json", "redis://new", "--warning", "7%"],
        &[
            "gate",
            "/etc/loadline-baseline/baseline.json",
            "redis://new",
            "--warning=7%",
        ],
    ),
];

/// Kubernetes' own schemas have every field of the Job, and no other type for it.
#[test]
fn jobs_are_valid_by_the_schemas_of_kubernetes() {
    let dir = Dir::new();
    dir.write("b.json", &baseline_of_two());
    let test = std::env::current_exe().unwrap();
    let installed = test.ancestors().nth(3).unwrap().join("kubernetes-validate");
    let validated = |job: &str, version: &str| {
        dir.write("job.json", job);
        let words = [
            "-m",
            "kubernetes_validate",
            "--strict",
            "-k",
            version,
            "job.json",
        ];
        let mut python = std::process::Command::new("python3");
        python.args(words).env("PYTHONPATH", &installed);
        let ended = Ended::of(&words, python.current_dir(dir.path()).output().unwrap());
        (ended.code, format!("{}{}", ended.stdout, ended.stderr))
    };
    let check = |job: &str, version: &str| {
        let (code, said) = validated(job, version);
        let hint = "`cargo xtask test --install` installs kubernetes-validate";
        assert_eq!(code, Some(0), "{said}\n{hint}");
        let passed = "passed for resource job/loadline-nightly-7";
        assert!(said.contains(passed), "{said}");
    };
    let of_run = dir.run(&manifest("--kubernetes", "redis://db", "redis://other"));
    let of_run = of_run.succeeded();
    for version in ["1.28", "1.33", "1.37"] {
        check(&of_run, version);
    }
    for (typed, started) in STARTED {
        let membership = ["--coordinator", "redis://other", "--run", "nightly-7"];
        let own = [
            &["agents", "manifest", "--kubernetes"],
            typed,
            &["--agents", "2"],
        ]
        .concat();
        let job = dir.run(&[&own[..], &membership].concat()).succeeded();
        check(&job, "1.33");
        let job: serde_json::Value = serde_json::from_str(&job).unwrap();
        let args = &job["spec"]["template"]["spec"]["containers"][0]["args"];
        let args = args.as_array().unwrap();
        let is_there = |word: &&str| args.iter().any(|arg| arg == word);
        let absent: Vec<&&str> = started.iter().filter(|word| !is_there(word)).collect();
        assert!(absent.is_empty(), "{absent:?} in {args:?}");
        assert_eq!(args[0], started[0]);
    }
    let (code, said) = validated(&of_run.replace("backoffLimit", "backofLimit"), "1.33");
    assert_eq!(code, Some(1));
    assert!(said.contains("backofLimit"), "{said}");
}

#[test]
fn commands_that_no_launcher_can_start_are_refused() {
    let dir = Dir::new();
    dir.write("b.json", &baseline_of_two());
    let refused = |launcher: &str, words: &[&str], why: &str| {
        let membership = ["--coordinator", "redis://other", "--run", "nightly-7"];
        let own = [&["agents", "manifest", launcher], words].concat();
        dir.run(&[&own[..], &membership].concat()).failed(64, why);
    };
    let add = ["baseline", "add", "b.json", "--agents", "2"];
    refused("--kubernetes", &add, "would be removed with the pod");
    let three = ["gate", "b.json", "--agents", "3"];
    refused("--slurm", &three, "its runs are of 2 agents together");
    let embedded = ["capacity", "embedded", "--agents", "2"];
    refused("--mpi", &embedded, "cannot be shared");
    let like = [
        "compare",
        "redis://db",
        "--like-config",
        "io-threads=4",
        "--agents",
        "2",
    ];
    refused("--mpi", &like, "--like-config starts servers");
}

/// A stand-in for `srun` starts the tasks as Slurm does.
#[test]
fn script_for_slurm_runs_its_agents() {
    let site = Site::new();
    let (target, coordinator) = (site.target.url(), site.coordinator.url());
    let words = [
        &manifest("--slurm", &target, &coordinator)[..],
        &["--lease", PATIENT],
    ]
    .concat();
    let script = site.dir.run(&words).succeeded();
    assert!(
        script.contains("#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\n"),
        "{script}"
    );
    site.dir.write("job.sh", &script);
    let srun = "#!/bin/sh\nshift\nSLURM_PROCID=1 \"$@\" >/dev/null 2>&1 &\nSLURM_PROCID=0 \"$@\" || exit\nwait $!\n";
    let srun = site.dir.write("srun", srun);
    std::fs::set_permissions(&srun, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_loadline"));
    let path = [
        site.dir.path().display().to_string(),
        program.parent().unwrap().display().to_string(),
        std::env::var("PATH").unwrap(),
    ];
    let output = std::process::Command::new("sh")
        .arg("job.sh")
        .current_dir(site.dir.path())
        .env("PATH", path.join(":"))
        .env("SLURM_JOB_ID", "4711")
        .env("LOADLINE_SECRET_FILE", "secret.txt")
        .output()
        .unwrap();
    let text = one_line(&Ended::of(&["job.sh"], output).succeeded());
    assert!(text.contains("2 agents"), "{text}");
    assert!(text.contains("--run=nightly-7-4711"), "{text}");
}

#[test]
fn line_for_mpi_names_the_secret_by_a_variable() {
    let dir = Dir::new();
    let words = manifest("--mpi", "cluster://db:7000", "redis://other");
    let line = dir.run(&words).succeeded();
    assert!(
        line.starts_with("mpirun -n 2 --map-by ppr:1:node loadline run cluster://db:7000 "),
        "{line}"
    );
    assert!(
        line.ends_with("--secret-file=\"${LOADLINE_SECRET_FILE:?}\"\n"),
        "{line}"
    );
    // A baseline stays where it is.
    dir.write("b.json", &baseline_of_two());
    let add = ["agents", "manifest", "--mpi", "baseline", "add", "b.json"];
    let membership = ["--coordinator", "redis://other", "--run", "n7"];
    let words = [&add[..], &["--runs", "3", "--agents", "2"], &membership].concat();
    let line = dir.run(&words).succeeded();
    let start = "mpirun -n 2 --map-by ppr:1:node loadline baseline add b.json --agents=2 ";
    assert!(
        line.starts_with(start) && line.contains(" --runs=3 "),
        "{line}"
    );
}
