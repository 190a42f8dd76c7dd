//! How long, and how often, an error is retried.

use std::thread;
use std::time::{Duration, Instant};

use super::ClientError;
use crate::client_config::ClientConfig;

/// After this long, what is being retried is told: a wait without a word hides its cause.
const TOLD_AFTER: Duration = Duration::from_secs(2);

/// The time limit and growing pauses of one operation.
#[derive(Debug)]
pub struct Retry {
    started: Instant,
    limit: Duration,
    pause: Duration,
    pause_max: Duration,
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
            told: false,
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
        if elapsed + self.pause > self.limit {
            return Err(ClientError::GaveUp {
                after: elapsed,
                last: Box::new(error),
            });
        }
        if elapsed > TOLD_AFTER && !self.told {
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
    use strandline_wire::ErrorCode;

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
