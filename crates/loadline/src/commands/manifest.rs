//! `loadline agents manifest`: the files with which Kubernetes, Slurm or MPI start the agents of a run.

use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;

use loadline_measure::gate::Baseline;
use serde_json::{Value, json};

use super::baseline::{default_target, kept};
use super::compare::refuse_started;
use super::gate::refuse_agents;
use super::surroundings;
use crate::args::{
    AgentsArgs, AgentsCommand, AgentsCommandArgs, BaselineArgs, BaselineCommand, CapacityArgs,
    CompareArgs, GateArgs, ManifestArgs, ManifestCommand, RunArgs,
};
use crate::exit::Failure;
use crate::files::{self, GateReference};
use crate::plan::{self, Plan, SharedPlan};
use crate::secret::quoted;

/// The directory of the secret in a container.
const SECRET_DIR: &str = "/etc/loadline";

/// The directory of the baseline in a container, and its key in the ConfigMap.
const BASELINE_DIR: &str = "/etc/loadline-baseline";
const BASELINE: &str = "baseline.json";

pub(super) fn run(args: AgentsCommandArgs) -> anyhow::Result<ExitCode> {
    let AgentsCommand::Manifest(args) = args.command;
    files::print(&manifest(*args)?)?;
    Ok(ExitCode::SUCCESS)
}

/// A command, resolved as a single load generator would.
struct Started {
    name: &'static str,
    file: Option<KeptFile>,
    targets: Vec<String>,
    /// The target that was typed, of a command that has everything else from its baseline.
    repeated: Option<Vec<String>>,
    plan: Plan,
    agents: AgentsArgs,
    /// The arguments that say what is measured.
    words: Vec<String>,
}

/// The file of a baseline.
struct KeptFile {
    path: String,
    is_read: bool,
    is_written: bool,
}

/// The processes to start.
struct Launch {
    agents: u32,
    /// The name of the run.
    run: String,
    /// CPUs of each agent: one for each thread, and one for the others.
    cpus: u32,
    /// The name of the command, and its file.
    command: &'static str,
    file: Option<KeptFile>,
    /// The rest of the command without its secret and the name of the run.
    words: Vec<String>,
}

/// # Errors
/// A usage error for a plan that agents cannot share; a bad file if a baseline cannot be read.
fn manifest(args: ManifestArgs) -> Result<String, Failure> {
    let missing = |flag: &str| Failure::usage(format!("{flag} is missing."));
    let Started {
        name,
        file,
        targets,
        repeated,
        plan,
        agents: asked,
        words,
    } = match args.command {
        None => of_run(args.measured)?,
        Some(ManifestCommand::Capacity(args)) => of_capacity(*args)?,
        Some(ManifestCommand::Compare(args)) => of_compare(*args)?,
        Some(ManifestCommand::Baseline(args)) => of_baseline(*args)?,
        Some(ManifestCommand::Gate(args)) => of_gate(*args)?,
    };
    let agents = asked.agents.ok_or_else(|| missing("--agents"))?;
    let membership = &asked.membership;
    let url = membership.coordinator.as_deref();
    let url = url.ok_or_else(|| missing("--coordinator"))?;
    let run = membership.run.clone().ok_or_else(|| missing("--run"))?;
    plan::check_run_name(&run)?;
    plan::check_shown_coordinator(url)?;
    let group = plan::resolve_group(agents, &asked, 0)?;
    let shared = SharedPlan::of(&targets, &words, &plan, &group, 0)?;
    let threads = plan.cases.iter().map(|case| case.threads).max();
    let own = [format!("--agents={agents}"), format!("--coordinator={url}")];
    let shown = repeated.unwrap_or_else(|| shared.command().collect());
    let launch = Launch {
        agents,
        run,
        cpus: threads.unwrap_or(1).saturating_add(1),
        command: name,
        file,
        words: [shown, own.to_vec(), asked.further].concat(),
    };
    if args.launcher.kubernetes {
        launch.kubernetes(&args.image)
    } else if args.launcher.slurm {
        Ok(launch.slurm())
    } else {
        Ok(launch.mpi())
    }
}

fn of_run(args: RunArgs) -> Result<Started, Failure> {
    let plan = plan::resolve(&args, &surroundings())?;
    Ok(Started {
        name: "run",
        file: None,
        repeated: None,
        plan,
        words: args.agents.words.clone(),
        agents: args.agents,
        targets: args.targets,
    })
}

fn of_capacity(args: CapacityArgs) -> Result<Started, Failure> {
    Ok(Started {
        name: "capacity",
        file: None,
        repeated: None,
        plan: plan::resolve_capacity(&args, &surroundings())?.base,
        words: args.agents.words.clone(),
        agents: args.agents,
        targets: vec![args.target],
    })
}

fn of_compare(args: CompareArgs) -> Result<Started, Failure> {
    refuse_started(&args)?;
    let targets: Vec<String> = [&args.a].into_iter().chain(&args.b).cloned().collect();
    let agents = args.agents.clone();
    Ok(Started {
        name: "compare",
        file: None,
        repeated: None,
        plan: plan::resolve_compare(args, &surroundings())?,
        words: agents.words.clone(),
        agents,
        targets,
    })
}

fn of_baseline(args: BaselineArgs) -> Result<Started, Failure> {
    let file = |path: &Path, is_read| KeptFile {
        path: path.display().to_string(),
        is_read,
        is_written: true,
    };
    match args.command {
        BaselineCommand::Save(args) => {
            let around = surroundings();
            let target = args.target.unwrap_or_else(|| default_target(&around));
            Ok(Started {
                name: "baseline save",
                file: Some(file(&args.file, false)),
                repeated: None,
                plan: plan::resolve_run(args.measure, target.clone(), &around)?,
                words: args.agents.words.clone(),
                agents: args.agents,
                targets: vec![target],
            })
        }
        BaselineCommand::Add(args) => {
            let kept = file(&args.file, true);
            let baseline = files::read_baseline(&args.file)?;
            of_kept("baseline add", kept, &baseline, args.target, args.agents)
        }
        BaselineCommand::Show(_) => Err(Failure::usage(
            "agents manifest: `baseline show` measures nothing, so it needs no agents.",
        )),
    }
}

fn of_gate(args: GateArgs) -> Result<Started, Failure> {
    let reference = files::read_kept(&args.baseline)?;
    refuse_agents(&args, &reference)?;
    let file = KeptFile {
        path: args.baseline.display().to_string(),
        is_read: true,
        is_written: false,
    };
    match reference {
        GateReference::Runs(baseline) => {
            of_kept("gate", file, &baseline, args.candidate, args.agents)
        }
        _ => unreachable!("agents repeat only runs"),
    }
}

/// A command that repeats the runs of `baseline`, on its own target or another one.
fn of_kept(
    name: &'static str,
    file: KeptFile,
    baseline: &Baseline,
    target: Option<String>,
    agents: AgentsArgs,
) -> Result<Started, Failure> {
    let given = agents.agents.map(u64::from);
    let kept = kept(baseline, given, target.as_deref(), &file.path)?;
    Ok(Started {
        name,
        file: Some(file),
        targets: vec![kept.target],
        repeated: Some(target.into_iter().collect()),
        plan: kept.plan,
        words: kept.words,
        agents,
    })
}

impl Launch {
    /// The command with `file` as the place of its baseline.
    fn words_with(&self, file: Option<&str>) -> impl Iterator<Item = String> {
        let words = self.command.split(' ').chain(file);
        words.map(str::to_owned).chain(self.words.clone())
    }

    /// The command with its baseline where it is on this machine.
    fn typed(&self) -> impl Iterator<Item = String> {
        let path = self.file.as_ref().map(|file| file.path.as_str());
        self.words_with(path).map(|word| quoted(&word))
    }

    /// The command in a container: a baseline is read from a ConfigMap, or printed.
    ///
    /// # Errors
    /// A usage error for a baseline that is both, because its pod is removed with it.
    fn contained(&self) -> Result<Vec<String>, Failure> {
        let Some(file) = &self.file else {
            return Ok(self.words_with(None).collect());
        };
        match (file.is_read, file.is_written) {
            (true, true) => Err(Failure::usage(format!(
                "--kubernetes: {} would be removed with the pod that adds to it; save another baseline, or use --slurm or --mpi.",
                file.path
            ))),
            (true, false) => {
                let place = format!("{BASELINE_DIR}/{BASELINE}");
                Ok(self.words_with(Some(&place)).collect())
            }
            (false, _) => {
                let quiet = "--quiet".to_owned();
                let words = self.words_with(Some("-"));
                let words = words.filter(|word| *word != quiet && word != "--force");
                Ok(words.chain([quiet.clone()]).collect())
            }
        }
    }

    /// An Indexed Job: the index of a pod is the rank of its agent.
    fn kubernetes(&self, image: &str) -> Result<String, Failure> {
        let is_label = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let is_name = self.run.chars().all(is_label) && !self.run.starts_with('-');
        if !is_name || self.run.ends_with('-') || self.run.len() > 54 {
            let why = "the name of a Job has up to 54 lower-case letters, digits and hyphens";
            return Err(Failure::invalid("--run", "name", &self.run, why));
        }
        let name = format!("loadline-{}", self.run);
        let mut args = self.contained()?;
        args.push(format!("--run={}", self.run));
        args.push(format!("--secret-file={SECRET_DIR}/secret"));
        let labels = json!({ "app.kubernetes.io/name": "loadline", "loadline/run": self.run });
        let has_baseline = self.file.as_ref().is_some_and(|file| file.is_read);
        let container = container(&name, image, &args, self.cpus, has_baseline);
        let mut volumes = vec![
            json!({ "name": "secret", "secret": {
                "secretName": name,
                "items": [{ "key": "secret", "path": "secret" }],
            }}),
            json!({ "name": "work", "emptyDir": {} }),
        ];
        if has_baseline {
            volumes.push(json!({ "name": "baseline", "configMap": {
                "name": name,
                "items": [{ "key": BASELINE, "path": BASELINE }],
            }}));
        }
        let pod = json!({
            "metadata": { "labels": labels },
            "spec": {
                "restartPolicy": "Never",
                "automountServiceAccountToken": false,
                "securityContext": {
                    "runAsNonRoot": true,
                    "runAsUser": 65532,
                    "fsGroup": 65532,
                    "seccompProfile": { "type": "RuntimeDefault" },
                },
                // One agent per node: agents on one node compete for its CPUs and its network.
                "affinity": { "podAntiAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [{
                        "topologyKey": "kubernetes.io/hostname",
                        "labelSelector": { "matchLabels": labels },
                    }],
                }},
                "containers": [container],
                "volumes": volumes,
            },
        });
        let job = json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": { "name": name, "labels": labels },
            "spec": {
                "completions": self.agents,
                "parallelism": self.agents,
                "completionMode": "Indexed",
                // An agent that is started again cannot join its run.
                "backoffLimit": 0,
                "ttlSecondsAfterFinished": 86_400,
                "template": pod,
            },
        });
        let json =
            serde_json::to_string_pretty(&job).expect("the Job holds only texts and numbers");
        Ok(json + "\n")
    }

    /// A batch script. The name of the run is the number of the job, so that the script can be submitted again.
    fn slurm(&self) -> String {
        let mut text = String::from("#!/bin/sh\n");
        for option in [
            format!("--job-name=loadline-{}", self.run),
            format!("--nodes={}", self.agents),
            "--ntasks-per-node=1".to_owned(),
            format!("--cpus-per-task={}", self.cpus),
        ] {
            let _ = writeln!(text, "#SBATCH {option}");
        }
        text += "# Passwords, if any, come from LOADLINE_REDIS_PASSWORD and LOADLINE_COORDINATOR_PASSWORD.\n";
        text += ": \"${LOADLINE_SECRET_FILE:?set it to the file with the secret of the run}\"\n";
        text += "exec srun --kill-on-bad-exit=0 loadline";
        for word in self.typed() {
            let _ = write!(text, " \\\n  {word}");
        }
        let _ = writeln!(
            text,
            " \\\n  --run={}-\"$SLURM_JOB_ID\" \\\n  --secret-file=\"$LOADLINE_SECRET_FILE\"",
            quoted(&self.run)
        );
        text
    }

    /// A command line.
    fn mpi(&self) -> String {
        let words: Vec<String> = self.typed().collect();
        format!(
            "mpirun -n {} --map-by ppr:1:node loadline {} --run={} --secret-file=\"${{LOADLINE_SECRET_FILE:?}}\"\n",
            self.agents,
            words.join(" "),
            quoted(&self.run)
        )
    }
}

/// The container of an agent. The Secret `secret` holds its passwords.
fn container(secret: &str, image: &str, args: &[String], cpus: u32, has_baseline: bool) -> Value {
    let mut mounts = vec![
        json!({ "name": "secret", "mountPath": SECRET_DIR, "readOnly": true }),
        json!({ "name": "work", "mountPath": "/work" }),
    ];
    if has_baseline {
        mounts.push(json!({ "name": "baseline", "mountPath": BASELINE_DIR, "readOnly": true }));
    }
    let password = |variable: &str, key: &str| {
        json!({
            "name": variable,
            "valueFrom": { "secretKeyRef": { "name": secret, "key": key, "optional": true } },
        })
    };
    json!({
        "name": "agent",
        "image": image,
        "args": args,
        "workingDir": "/work",
        "env": [
            password("LOADLINE_REDIS_PASSWORD", "target-password"),
            password("LOADLINE_COORDINATOR_PASSWORD", "coordinator-password"),
        ],
        "resources": {
            "requests": { "cpu": cpus.to_string(), "memory": "512Mi" },
            "limits": { "memory": "2Gi" },
        },
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "capabilities": { "drop": ["ALL"] },
            "readOnlyRootFilesystem": true,
        },
        "volumeMounts": mounts,
    })
}
