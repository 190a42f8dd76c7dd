//! Where the foreign clients are, as `install` lays them, and how each one is started.

use crate::client::Client;
use crate::kcat::Kcat;
use crate::native::Native;
use crate::script::{Abilities, Script};
use crate::tally::Tally;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The versions of kafka-clients under test, oldest first; `install` reads them from here.
pub(crate) const JAVA_VERSIONS: [&str; 2] = ["3.9.2", "4.4.0"];

/// What the reports call them, before the version.
const JAVA: &str = "kafka-clients-";

/// A folder that `install` filled.
pub(crate) struct Tools {
    folder: PathBuf,
    sources: PathBuf,
    check_tries: u32,
    tally: Tally,
}

impl Tools {
    /// The folder, and the drivers of this crate.
    ///
    /// A check of an admin scenario gets `check_tries` tries: one with Strandline, which answers a change once
    /// every shard has applied it; more with an Apache Kafka, whose brokers apply it some time after.
    pub(crate) fn new(folder: &Path, check_tries: u32) -> Result<Self, String> {
        let folder = folder
            .canonicalize()
            .map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(Self {
            folder,
            sources: PathBuf::from(env!("CARGO_MANIFEST_DIR")),
            check_tries,
            tally: Tally::default(),
        })
    }

    /// Whether the broker is an Apache Kafka.
    pub(crate) fn is_peer(&self) -> bool {
        self.check_tries > 1
    }

    /// What the libraries of `clients` did.
    pub(crate) fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Every library, the one that needs no process first.
    pub(crate) fn clients(&self, bootstrap: &str) -> Result<Vec<Box<dyn Client>>, String> {
        let mut clients: Vec<Box<dyn Client>> =
            vec![Box::new(Native::new(bootstrap)), Box::new(Kcat::new(bootstrap))];
        for script in self.scripts(bootstrap)? {
            clients.push(Box::new(script));
        }
        Ok(clients
            .into_iter()
            .map(|client| self.tally.counting(client))
            .collect())
    }

    /// The libraries that run in a process of their own.
    pub(crate) fn scripts(&self, bootstrap: &str) -> Result<Vec<Script>, String> {
        // kafka-python takes no null header, and no record of null key and null value. kafkajs takes no null
        // header either, keeps headers in an object, compresses by gzip alone without plug-ins, and consumes
        // only in groups.
        let kafka_python = Abilities {
            null_headers: false,
            bare_records: false,
            ..Abilities::ALL
        };
        let kafkajs = Abilities {
            codecs: &["none", "gzip"],
            null_headers: false,
            bare_records: true,
            header_order: false,
            consumes: false,
        };
        let mut scripts = vec![
            self.script("confluent-kafka", bootstrap, Abilities::ALL)?,
            self.script("kafka-python", bootstrap, kafka_python)?,
            self.script("kafkajs", bootstrap, kafkajs)?,
        ];
        for version in JAVA_VERSIONS {
            scripts.push(self.java_client(bootstrap, version)?);
        }
        Ok(scripts)
    }

    /// The names of the libraries that consume in groups.
    pub(crate) fn group_libraries() -> Vec<String> {
        let names = ["rdkafka", "confluent-kafka", "kafka-python", "kafkajs"];
        let java = JAVA_VERSIONS.map(|version| format!("{JAVA}{version}"));
        names.into_iter().map(str::to_owned).chain(java).collect()
    }

    /// A process that is a member of a group by the library of this name.
    pub(crate) fn member(&self, name: &str, bootstrap: &str) -> Result<Script, String> {
        if let Some(version) = name.strip_prefix(JAVA) {
            return self.java_client(bootstrap, version);
        }
        if name != "rdkafka" {
            return self.script(name, bootstrap, Abilities::ALL);
        }
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut command = Command::new(program);
        command.arg("--tools").arg(&self.folder).arg("--drive-rdkafka");
        Script::start(name, bootstrap, Abilities::ALL, command)
    }

    fn script(&self, name: &str, bootstrap: &str, abilities: Abilities) -> Result<Script, String> {
        let command = match name {
            "confluent-kafka" => self.python("confluent.py"),
            "kafka-python" => self.python("kafka_python.py"),
            _ => self.node(),
        };
        Script::start(name, bootstrap, abilities, command)
    }

    /// One version of kafka-clients.
    pub(crate) fn java_client(&self, bootstrap: &str, version: &str) -> Result<Script, String> {
        let folder = self.folder.join(format!("java-{version}"));
        let mut command = java(&format!("{0}/classes:{0}/*", folder.display()), 512);
        command
            .arg("Driver")
            .env("CHECK_TRIES", self.check_tries.to_string());
        Script::start(&format!("{JAVA}{version}"), bootstrap, Abilities::ALL, command)
    }

    /// An instance of the word count on Kafka Streams.
    pub(crate) fn streams(&self, bootstrap: &str) -> Result<Script, String> {
        let folder = self.folder.join("streams");
        let mut command = java(&format!("{0}/classes:{0}/*", folder.display()), 256);
        command.arg("WordCount");
        Script::start("kafka-streams", bootstrap, Abilities::ALL, command)
    }

    /// A command-line tool of Kafka by its class; returns what it prints. The error holds what it printed
    /// before it failed.
    pub(crate) fn kafka_tool(&self, class: &str, arguments: &[&str]) -> Result<String, String> {
        let mut command = Command::new("timeout");
        command
            .args(["120", "java"])
            .args(java(&format!("{}/kafka/*", self.folder.display()), 256).get_args());
        let output = command
            .arg(class)
            .args(arguments)
            .output()
            .map_err(|error| format!("cannot run java: {error}"))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() {
            return Ok(text);
        }
        Err(format!(
            "{class}: {}: {text:.500} {:.1500}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        ))
    }

    /// Whether HdrHistogram's Python implementation reads in the log of a run of the load generator what the run itself says.
    pub(crate) fn read_hdr_log(&self, run: &Path) -> Result<(), String> {
        let output = self
            .python("hdr_log.py")
            .arg(run)
            .output()
            .map_err(|error| format!("cannot run python: {error}"))?;
        if output.status.success() && output.stdout == b"OK\n" {
            return Ok(());
        }
        Err(format!(
            "{:.500}{:.1500}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        ))
    }

    /// The lag of groups in a page of metrics, as Prometheus' own parser reads it; a line for each series.
    pub(crate) fn scrape(&self, url: &str) -> Result<String, String> {
        let output = self
            .python("scrape.py")
            .arg(url)
            .output()
            .map_err(|error| format!("cannot run python: {error}"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        match text.strip_suffix("OK\n") {
            Some(lines) if output.status.success() => Ok(lines.to_owned()),
            _ => Err(format!(
                "{text:.500}{:.1500}",
                String::from_utf8_lossy(&output.stderr)
            )),
        }
    }

    /// Whether a headless browser draws the report of a run without a complaint and without a network. The
    /// screenshot stays beside the clients.
    pub(crate) fn browser_shows(&self, page: &Path) -> Result<(), String> {
        let output = self
            .python("browser.py")
            .arg(page)
            .arg(self.folder.join("report.png"))
            .output()
            .map_err(|error| format!("cannot run python: {error}"))?;
        if output.status.success() && output.stdout == b"OK\n" {
            return Ok(());
        }
        Err(format!(
            "{:.500}{:.1500}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        ))
    }

    fn python(&self, script: &str) -> Command {
        let mut command = Command::new(self.folder.join("venv/bin/python"));
        command.arg("-B").arg(self.sources.join("python").join(script));
        command.env("CHECK_TRIES", self.check_tries.to_string());
        command
    }

    fn node(&self) -> Command {
        let mut command = Command::new("node");
        command
            .arg(self.sources.join("node/kafkajs.js"))
            .env("NODE_PATH", self.folder.join("node/node_modules"));
        command
            .env("KAFKAJS_NO_PARTITIONER_WARNING", "1")
            .env("CHECK_TRIES", self.check_tries.to_string());
        command
    }
}

/// A small JVM that starts fast: these are tests of behaviour.
fn java(class_path: &str, heap_mib: u32) -> Command {
    let mut command = Command::new("java");
    command.args([
        &format!("-Xmx{heap_mib}m"),
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        "-cp",
        class_path,
    ]);
    command
}
