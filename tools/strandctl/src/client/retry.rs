//! How long, and how often, an error is retried.

use std::thread;
use std::time::{Duration, Instant};

use strandline_wire::ErrorCode;

use super::ClientError;
use crate::client_config::ClientConfig;

/// After this long, what is being retried is told: a wait without a word hides its cause.
const TOLD_AFTER: Duration = Duration::from_secs(2);

/// For so long a reader waits for a broken disk at most: some heal, of a full one others may free space.
const STORAGE_ERROR_MAX: Duration = Duration::from_secs(5);

/// The time limit and growing pauses of one operation.
#[derive(Debug)]
pub struct Retry {
    started: Instant,
    limit: Duration,
    pause: Duration,
    pause_max: Duration,
    /// The limit for KAFKA_STORAGE_ERROR.
    storage_limit: Duration,
    told: bool,
}

impl Retry {
    /// Retries for `default.api.timeout.ms`.
    pub fn new(config: &ClientConfig) -> Self {
        Self::within(config, config.api_timeout)
    }

    /// Retries for `limit`.
    pub fn within(config: &ClientConfig, limit: Duration) -> Self {
        Self {
            started: Instant::now(),
            limit,
            pause: config.retry_backoff,
            pause_max: config.retry_backoff_max.max(config.retry_backoff),
            storage_limit: Duration::MAX,
            told: false,
        }
    }

    /// The same for a reader, which gives a broken disk a few seconds only: unlike a writer it has nothing to lose.
    pub fn of_reader(config: &ClientConfig) -> Self {
        Self {
            storage_limit: STORAGE_ERROR_MAX,
            ..Self::new(config)
        }
    }

    /// Waits before the next attempt, or gives the error back when it is not retriable or the time is up.
    pub fn pause_after(&mut self, error: ClientError) -> Result<(), ClientError> {
        thread::sleep(self.next_pause(error)?);
        Ok(())
    }

    /// How long to wait before the next attempt, for a caller that has other things to do meanwhile.
    pub fn next_pause(&mut self, error: ClientError) -> Result<Duration, ClientError> {
        if !error.is_retriable() {
            return Err(error);
        }
        let elapsed = self.started.elapsed();
        let is_of_storage = error.code() == Some(ErrorCode::KafkaStorageError);
        let limit = match is_of_storage {
            true => self.limit.min(self.storage_limit),
            false => self.limit,
        };
        if elapsed + self.pause > limit {
            return Err(ClientError::GaveUp {
                after: elapsed,
                last: Box::new(error),
            });
        }
        // A disk seldom heals by itself: whoever can help must hear of it at once.
        if (elapsed > TOLD_AFTER || is_of_storage) && !self.told {
            self.told = true;
            eprintln!("strandctl: retrying: {error}");
        }
        let pause = self.pause;
        self.pause = (self.pause * 2).min(self.pause_max);
        Ok(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> ClientConfig {
        ClientConfig {
            retry_backoff: Duration::ZERO,
            retry_backoff_max: Duration::ZERO,
            ..ClientConfig::default()
        }
    }

    fn error(code: ErrorCode) -> ClientError {
        ClientError::broker("t-0", code, None)
    }

    #[test]
    fn retriable_errors_pause_and_others_return_as_they_are() {
        let mut retry = Retry::new(&config());
        assert!(retry.pause_after(error(ErrorCode::NotLeaderOrFollower)).is_ok());
        let returned = retry
            .pause_after(error(ErrorCode::TopicAlreadyExists))
            .unwrap_err();
        assert!(matches!(returned, ClientError::Broker { .. }));
    }

    #[test]
    fn a_reader_gives_a_broken_disk_less_time() {
        let broken = || error(ErrorCode::KafkaStorageError);
        let mut reader = Retry::of_reader(&config());
        assert!(reader.next_pause(broken()).is_ok());
        let Some(before) = Instant::now().checked_sub(STORAGE_ERROR_MAX + Duration::from_secs(1)) else {
            return;
        };
        reader.started = before;
        assert!(matches!(
            reader.next_pause(broken()),
            Err(ClientError::GaveUp { .. })
        ));
        assert!(reader.next_pause(error(ErrorCode::NotLeaderOrFollower)).is_ok());
        let mut writer = Retry::new(&config());
        writer.started = before;
        assert!(writer.next_pause(broken()).is_ok());
    }

    #[test]
    fn time_that_is_up_keeps_the_last_error() {
        let config = ClientConfig {
            retry_backoff: Duration::from_secs(1),
            ..config()
        };
        let mut retry = Retry::within(&config, Duration::ZERO);
        let returned = retry
            .pause_after(error(ErrorCode::NotLeaderOrFollower))
            .unwrap_err();
        assert!(matches!(returned, ClientError::GaveUp { .. }));
        assert_eq!(returned.code(), Some(ErrorCode::NotLeaderOrFollower));
        assert!(!returned.is_retriable());
    }
}
