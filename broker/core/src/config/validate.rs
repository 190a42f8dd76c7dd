//! Checks of keys and values, with the texts that clients and operators read.

use std::collections::BTreeMap;

use super::key::{Check, Effect, Key, Kind, Scope, Update};
use super::lookup;

/// Checks a topic's own configuration.
///
/// # Errors
/// The text for the client.
pub fn validate_topic(configs: &BTreeMap<String, String>) -> Result<(), String> {
    for (name, value) in configs {
        let key = lookup(Scope::Topic, name).ok_or_else(|| format!("unknown topic config name: {name}"))?;
        check_value(key, value)?;
        check_effect(key, value)?;
    }
    let number = |name: &str| {
        configs
            .get(name)
            .and_then(|value| value.trim().parse::<i64>().ok())
    };
    if let (Some(least), Some(most)) = (number("min.compaction.lag.ms"), number("max.compaction.lag.ms"))
        && least > most
    {
        return Err(format!(
            "min.compaction.lag.ms ({least}) is above max.compaction.lag.ms ({most})"
        ));
    }
    Ok(())
}

/// Checks the dynamic configuration of a broker (`one_broker`) or of the cluster.
///
/// # Errors
/// The text for the client.
pub fn validate_dynamic_broker(configs: &BTreeMap<String, String>, one_broker: bool) -> Result<(), String> {
    for (name, value) in configs {
        let key = lookup(Scope::Broker, name).ok_or_else(|| format!("unknown broker config name: {name}"))?;
        match key.update {
            Update::ReadOnly => {
                return Err(format!(
                    "cannot update '{name}' while the node runs: it is read-only"
                ));
            }
            Update::PerBroker if !one_broker => {
                return Err(format!(
                    "'{name}' can be changed for one broker only, not for the cluster's default"
                ));
            }
            Update::PerBroker | Update::ClusterWide => {}
        }
        check_value(key, value)?;
        check_effect(key, value)?;
    }
    Ok(())
}

/// Checks a group's own configuration; the bounds that the broker sets are for [`ConsumerGroupSettings::check`].
///
/// # Errors
/// The text for the client.
///
/// [`ConsumerGroupSettings::check`]: super::ConsumerGroupSettings::check
pub fn validate_group(configs: &BTreeMap<String, String>) -> Result<(), String> {
    for (name, value) in configs {
        let key = lookup(Scope::Group, name).ok_or_else(|| format!("unknown group config name: {name}"))?;
        check_value(key, value)?;
    }
    Ok(())
}

/// Whether the values of the key are lists, for a topic or a broker.
pub fn is_list(name: &str) -> bool {
    let is = |scope| lookup(scope, name).is_some_and(|key: &Key| key.kind == Kind::List);
    is(Scope::Topic) || is(Scope::Broker)
}

fn check_effect(key: &Key, value: &str) -> Result<(), String> {
    match key.effect {
        Effect::Refused(reason) if Some(value) != key.default => {
            Err(format!("'{}' cannot be set to '{value}': {reason}", key.name))
        }
        _ => Ok(()),
    }
}

/// Checks one value against the type and range of its key.
///
/// # Errors
/// The text for the client or the operator.
pub fn check_value(key: &Key, value: &str) -> Result<(), String> {
    let value = value.trim();
    let shown = if key.kind == Kind::Password {
        "[hidden]"
    } else {
        value
    };
    let invalid = |why: String| Err(format!("invalid value '{shown}' for '{}': {why}", key.name));
    let number = match key.kind {
        Kind::Boolean => {
            return match value.eq_ignore_ascii_case("true") || value.eq_ignore_ascii_case("false") {
                true => Ok(()),
                false => invalid("it must be true or false".to_owned()),
            };
        }
        Kind::Int => value
            .parse::<i32>()
            .map(i64::from)
            .map_err(|_| "a number of 32 bits"),
        Kind::Short => value
            .parse::<i16>()
            .map(i64::from)
            .map_err(|_| "a number of 16 bits"),
        Kind::Long => value.parse::<i64>().map_err(|_| "a number of 64 bits"),
        Kind::Double => {
            let Ok(number) = value.parse::<f64>() else {
                return invalid("it must be a number".to_owned());
            };
            return match key.check {
                Check::Fraction(least, most) if !(least..=most).contains(&number) => {
                    invalid(format!("it must be from {least} to {most}"))
                }
                Check::AtLeast(least) if number.is_nan() || number < least as f64 => {
                    invalid(format!("it must be at least {least}"))
                }
                _ => Ok(()),
            };
        }
        Kind::String | Kind::List | Kind::Class | Kind::Password => {
            return check_text(key, value).or_else(invalid);
        }
    };
    let number = match number {
        Ok(number) => number,
        Err(kind) => return invalid(format!("it must be {kind}")),
    };
    match key.check {
        Check::AtLeast(least) if number < least => invalid(format!("it must be at least {least}")),
        Check::Between(least, most) if !(least..=most).contains(&number) => {
            invalid(format!("it must be from {least} to {most}"))
        }
        Check::BetweenOr(least, most, also) if number != also && !(least..=most).contains(&number) => {
            invalid(format!("it must be from {least} to {most}, or {also}"))
        }
        _ => Ok(()),
    }
}

fn check_text(key: &Key, value: &str) -> Result<(), String> {
    let is_list = key.kind == Kind::List;
    match key.check {
        Check::NotEmpty if value.is_empty() => Err("it must not be empty".to_owned()),
        Check::OneOf(words) if is_list => {
            for item in value.split(',').map(str::trim).filter(|item| !item.is_empty()) {
                if !words.contains(&item) {
                    return Err(format!("each item must be one of {}", words.join(", ")));
                }
            }
            Ok(())
        }
        Check::OneOf(words) if !words.contains(&value) => {
            Err(format!("it must be one of {}", words.join(", ")))
        }
        Check::OneOfAnyCase(words) if !words.iter().any(|word| word.eq_ignore_ascii_case(value)) => {
            Err(format!("it must be one of {}", words.join(", ")))
        }
        Check::HostCounts
            if !pairs(value, |host, count| {
                !host.is_empty() && count.parse::<u32>().is_ok()
            }) =>
        {
            Err("it must be host:count pairs, separated by commas".to_owned())
        }
        Check::ThrottledReplicas
            if value != "*"
                && !pairs(value, |left, right| {
                    left.parse::<u32>().is_ok() && right.parse::<u32>().is_ok()
                }) =>
        {
            Err("it must be partition:broker pairs, separated by commas, or *".to_owned())
        }
        _ => Ok(()),
    }
}

fn pairs(value: &str, fits: impl Fn(&str, &str) -> bool) -> bool {
    let mut items = value.split(',').map(str::trim).filter(|item| !item.is_empty());
    items.all(|item| {
        item.rsplit_once(':')
            .is_some_and(|(left, right)| fits(left, right))
    })
}
