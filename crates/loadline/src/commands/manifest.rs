//! `loadline agents manifest`: the files with which Kubernetes, Slurm or MPI start the agents of a run.

use std::fmt::Write;
use std::process::ExitCode;

use serde_json::{Value, json};

use super::surroundings;
use crate::args::{AgentsCommand, AgentsCommandArgs, ManifestArgs};
use crate::exit::Failure;
use crate::files;
use crate::plan::{self, SharedPlan};
use crate::secret::quoted;
use crate::units::duration_text;

/// The directory of the secret in a container.
const SECRET_DIR: &str = "/etc/loadline";

pub(super) fn run(args: &AgentsCommandArgs) -> anyhow::Result<ExitCode> {
    let AgentsCommand::Manifest(args) = &args.command;
    files::print(&manifest(args)?)?;
    Ok(ExitCode::SUCCESS)
}

/// The processes to start.
struct Launch {
    agents: u32,
    /// The name of the run.
    run: String,
    /// CPUs of each agent: one for each thread, and one for the others.
    cpus: u32,
    /// The command without its secret and the name of the run.
    words: Vec<String>,
}

/// # Errors
/// A usage error for a plan that agents cannot share.
fn manifest(args: &ManifestArgs) -> Result<String, Failure> {
    let measured = &args.measured;
    let missing = |flag: &str| Failure::usage(format!("{flag} is missing."));
    let agents = measured.agents.agents.ok_or_else(|| missing("--agents"))?;
    let membership = &measured.agents.membership;
    let url = membership.coordinator.as_deref();
    let url = url.ok_or_else(|| missing("--coordinator"))?;
    let run = membership.run.clone().ok_or_else(|| missing("--run"))?;
    plan::check_run_name(&run)?;
    plan::check_shown_coordinator(url)?;
    let group = plan::resolve_group(agents, &measured.agents, 0)?;
    let resolved = plan::resolve(measured, &surroundings())?;
    let shared = SharedPlan::of(
        &measured.targets,
        &measured.agents.words,
        &resolved,
        &group,
        0,
    )?;
    let mut words = vec!["run".to_owned()];
    words.extend(shared.command());
    words.extend([format!("--agents={agents}"), format!("--coordinator={url}")]);
    if group.fewest < agents {
        words.push(format!("--degraded={}", group.fewest));
    }
    if let Some(lease) = measured.agents.lease {
        words.push(format!("--lease={}", duration_text(lease)));
    }
    let launch = Launch {
        agents,
        run,
        cpus: resolved.cases[0].threads.saturating_add(1),
        words,
    };
    if args.launcher.kubernetes {
        launch.kubernetes(&args.image)
    } else if args.launcher.slurm {
        Ok(launch.slurm())
    } else {
        Ok(launch.mpi())
    }
}

impl Launch {
    /// An Indexed Job: the index of a pod is the rank of its agent.
    fn kubernetes(&self, image: &str) -> Result<String, Failure> {
        let is_label = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let is_name = self.run.chars().all(is_label) && !self.run.starts_with('-');
        if !is_name || self.run.ends_with('-') || self.run.len() > 54 {
            let why = "the name of a Job has up to 54 lower-case letters, digits and hyphens";
            return Err(Failure::invalid("--run", "name", &self.run, why));
        }
        let name = format!("loadline-{}", self.run);
        let mut args = self.words.clone();
        args.push(format!("--run={}", self.run));
        args.push(format!("--secret-file={SECRET_DIR}/secret"));
        let labels = json!({ "app.kubernetes.io/name": "loadline", "loadline/run": self.run });
        let container = container(&name, image, &args, self.cpus);
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
                "volumes": [
                    { "name": "secret", "secret": {
                        "secretName": name,
                        "items": [{ "key": "secret", "path": "secret" }],
                    }},
                    { "name": "work", "emptyDir": {} },
                ],
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
        for word in &self.words {
            let _ = write!(text, " \\\n  {}", quoted(word));
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
        let words: Vec<String> = self.words.iter().map(|word| quoted(word)).collect();
        format!(
            "mpirun -n {} --map-by ppr:1:node loadline {} --run={} --secret-file=\"${{LOADLINE_SECRET_FILE:?}}\"\n",
            self.agents,
            words.join(" "),
            quoted(&self.run)
        )
    }
}

/// The container of an agent. The Secret `secret` holds its passwords.
fn container(secret: &str, image: &str, args: &[String], cpus: u32) -> Value {
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
        "volumeMounts": [
            { "name": "secret", "mountPath": SECRET_DIR, "readOnly": true },
            { "name": "work", "mountPath": "/work" },
        ],
    })
}
