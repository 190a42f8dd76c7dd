//! Workload files of the OpenMessaging Benchmark, as options of `run`.
//!
//! They are flat: one `key: value` a line. What they say of payloads' bytes is taken by its share of random bytes; their payload files are
//! not read.

use std::collections::BTreeMap;

/// Keys that its distributors draw from: so many in turn, or the clock's nanoseconds, which hardly ever come twice.
const KEYS_IN_TURN: u32 = 10_000;
const KEYS_OF_THE_CLOCK: u32 = 1_000_000;

/// How long it warms up unless told, in minutes.
const WARM_UP_MINUTES: f64 = 1.0;

/// A backlog is given in units of so many bytes.
const BACKLOG_UNIT: f64 = (1_u64 << 30) as f64;

/// Smaller messages have no room for what verifies and times them.
const MESSAGE_BYTES_MIN: f64 = 32.0;

/// What is understood, and what says nothing to this tool.
const UNDERSTOOD: [&str; 15] = [
    "name",
    "topics",
    "partitionsPerTopic",
    "messageSize",
    "keyDistributor",
    "subscriptionsPerTopic",
    "consumerPerSubscription",
    "producersPerTopic",
    "producerRate",
    "consumerBacklogSizeGB",
    "testDurationMinutes",
    "warmupDurationMinutes",
    "useRandomizedPayloads",
    "randomBytesRatio",
    // Read by nobody here:
    "payloadFile",
];
const IGNORED: [&str; 3] = [
    "randomizedPayloadPoolSize",
    "backlogDrainRatio",
    "topicDurability",
];

/// The options that the text of a workload file stands for. The error is a sentence.
pub fn options(text: &str) -> Result<Vec<String>, String> {
    let fields = fields(text)?;
    let number = |key: &str, otherwise: Option<f64>| -> Result<f64, String> {
        match fields.get(key) {
            Some(text) => match text.replace('_', "").parse::<f64>() {
                Ok(number) if number.is_finite() && number >= 0.0 => Ok(number),
                _ => Err(format!("{key}: `{text}` is no number")),
            },
            None => otherwise.ok_or_else(|| {
                format!("{key} is missing: is this a workload of the OpenMessaging Benchmark?")
            }),
        }
    };
    let topics = number("topics", Some(1.0))?;
    let message = number("messageSize", None)?;
    if message < MESSAGE_BYTES_MIN {
        return Err(format!(
            "messageSize: a record needs {MESSAGE_BYTES_MIN} bytes for what verifies and times it"
        ));
    }
    let rate = number("producerRate", None)?;
    let mut options = vec![
        format!("--topics={topics}"),
        format!("--partitions={}", number("partitionsPerTopic", None)?),
        format!("--record-size={message}"),
        format!("--producers={}", number("producersPerTopic", Some(1.0))? * topics),
        // 0 asks for the highest rate.
        if rate > 0.0 {
            format!("--rate={rate}")
        } else {
            "--rate=max".to_owned()
        },
        format!(
            "--warm-up={}m",
            number("warmupDurationMinutes", Some(WARM_UP_MINUTES))?
        ),
    ];
    if let Some(name) = fields.get("name") {
        options.push(format!("--name={}", file_name(name)));
    }
    match fields.get("keyDistributor").map(String::as_str) {
        None | Some("NO_KEY") => {}
        Some("KEY_ROUND_ROBIN") => options.push(format!("--keys=round-robin:{KEYS_IN_TURN}")),
        Some("RANDOM_NANO") => options.push(format!("--keys=random:{KEYS_OF_THE_CLOCK}")),
        Some(other) => return Err(format!("keyDistributor: `{other}` is not known")),
    }
    if fields
        .get("useRandomizedPayloads")
        .is_some_and(|value| value == "true")
    {
        let random = number("randomBytesRatio", Some(1.0))?;
        if random > 1.0 {
            return Err("randomBytesRatio is a share, 0 to 1".to_owned());
        }
        options.push(format!("--compressibility={}", 1.0 - random));
    }
    let members = number("consumerPerSubscription", Some(1.0))? * topics;
    let backlog = number("consumerBacklogSizeGB", Some(0.0))?;
    if backlog > 0.0 {
        // Written first, then read back by as many: the backlog and its drain.
        options.push(format!(
            "--num-records={}",
            (backlog * BACKLOG_UNIT / message).ceil()
        ));
        options.push("--consumers=0".to_owned());
        options.push(format!("--readers={}", members.max(1.0)));
    } else {
        options.push(format!("--duration={}m", number("testDurationMinutes", None)?));
        options.push(format!(
            "--groups={}",
            number("subscriptionsPerTopic", Some(1.0))?
        ));
        options.push(format!("--group-members={}", members.max(1.0)));
    }
    Ok(options)
}

/// The fields of a flat YAML file.
fn fields(text: &str) -> Result<BTreeMap<String, String>, String> {
    let mut fields = BTreeMap::new();
    for (line, number) in text.lines().zip(1..) {
        // A `#` begins a comment at the start of a line or after a blank.
        let line = match line.find(" #") {
            Some(comment) => &line[..comment],
            None => line,
        };
        if line.trim().is_empty() || line.starts_with('#') || line.trim() == "---" {
            continue;
        }
        let (key, value) = line
            .split_once(':')
            .filter(|(key, _)| !key.starts_with([' ', '-']))
            .ok_or_else(|| format!("line {number}: `{}` is no `key: value`", line.trim()))?;
        let key = key.trim();
        if IGNORED.contains(&key) {
            continue;
        }
        if !UNDERSTOOD.contains(&key) {
            return Err(format!("line {number}: `{key}` is not known"));
        }
        let value = value.trim().trim_matches(['"', '\'']);
        fields.insert(key.to_owned(), value.to_owned());
    }
    Ok(fields)
}

/// A name that a folder may have.
fn file_name(name: &str) -> String {
    name.chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || c == '.' {
                c
            } else {
                '-'
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIMPLE: &str = "# Licence\n\nname: a load / of ours\n\ntopics: 2\npartitionsPerTopic: 10\nkeyDistributor: \"KEY_ROUND_ROBIN\"\nmessageSize: 1024 # bytes\nuseRandomizedPayloads: true\nrandomBytesRatio: 0.5\nrandomizedPayloadPoolSize: 1000\n\nsubscriptionsPerTopic: 3\nconsumerPerSubscription: 2\nproducersPerTopic: 4\nproducerRate: 50000\nconsumerBacklogSizeGB: 0\ntestDurationMinutes: 15\n";

    #[test]
    fn a_workload_becomes_options() {
        let found = options(SIMPLE).unwrap();
        let expected = [
            "--topics=2",
            "--partitions=10",
            "--record-size=1024",
            "--producers=8",
            "--rate=50000",
            "--warm-up=1m",
            "--name=a-load---of-ours",
            "--keys=round-robin:10000",
            "--compressibility=0.5",
            "--duration=15m",
            "--groups=3",
            "--group-members=4",
        ];
        assert_eq!(found, expected);
        let highest = options(&SIMPLE.replace("producerRate: 50000", "producerRate: 0")).unwrap();
        assert!(
            highest.contains(&"--rate=max".to_owned()),
            "0 asks for the highest rate, never for 1/s"
        );
        let backlog = options(&SIMPLE.replace("SizeGB: 0", "SizeGB: 1")).unwrap();
        assert!(
            backlog.contains(&"--num-records=1048576".to_owned())
                && backlog.contains(&"--readers=4".to_owned())
        );
        assert!(!backlog.iter().any(|option| option.starts_with("--groups")));
    }

    #[test]
    fn what_is_not_understood_is_named() {
        for (text, says) in [
            ("speed: 5", "`speed` is not known"),
            ("topics", "line 1"),
            ("topics: 1", "messageSize is missing"),
            ("messageSize: 10", "32 bytes"),
            ("messageSize: x", "no number"),
        ] {
            assert!(options(text).unwrap_err().contains(says), "{text}");
        }
        let keys = SIMPLE.replace("KEY_ROUND_ROBIN", "OTHER");
        assert!(options(&keys).unwrap_err().contains("OTHER"));
    }
}
