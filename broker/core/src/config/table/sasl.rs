//! SASL.

use super::super::key::{Check, Key, Kind};

pub(super) const KEYS: &[Key] = &[
    Key::broker("sasl.client.callback.handler.class", Kind::Class, None).doc(""),
    Key::broker("sasl.enabled.mechanisms", Kind::List, Some("GSSAPI"))
        .per_broker()
        .doc(""),
    Key::broker("sasl.jaas.config", Kind::Password, None)
        .per_broker()
        .doc(""),
    Key::broker("sasl.kerberos.kinit.cmd", Kind::String, Some("/usr/bin/kinit"))
        .per_broker()
        .doc(""),
    Key::broker("sasl.kerberos.min.time.before.relogin", Kind::Long, Some("60000"))
        .per_broker()
        .doc(""),
    Key::broker(
        "sasl.kerberos.principal.to.local.rules",
        Kind::List,
        Some("DEFAULT"),
    )
    .per_broker()
    .doc(""),
    Key::broker("sasl.kerberos.service.name", Kind::String, None)
        .per_broker()
        .doc(""),
    Key::broker("sasl.kerberos.ticket.renew.jitter", Kind::Double, Some("0.05"))
        .per_broker()
        .doc(""),
    Key::broker(
        "sasl.kerberos.ticket.renew.window.factor",
        Kind::Double,
        Some("0.8"),
    )
    .per_broker()
    .doc(""),
    Key::broker("sasl.login.callback.handler.class", Kind::Class, None).doc(""),
    Key::broker("sasl.login.class", Kind::Class, None).doc(""),
    Key::broker("sasl.login.connect.timeout.ms", Kind::Int, None).doc(""),
    Key::broker("sasl.login.read.timeout.ms", Kind::Int, None).doc(""),
    Key::broker("sasl.login.refresh.buffer.seconds", Kind::Short, Some("300"))
        .per_broker()
        .doc(""),
    Key::broker("sasl.login.refresh.min.period.seconds", Kind::Short, Some("60"))
        .per_broker()
        .doc(""),
    Key::broker("sasl.login.refresh.window.factor", Kind::Double, Some("0.8"))
        .per_broker()
        .doc(""),
    Key::broker("sasl.login.refresh.window.jitter", Kind::Double, Some("0.05"))
        .per_broker()
        .doc(""),
    Key::broker("sasl.login.retry.backoff.max.ms", Kind::Long, Some("10000")).doc(""),
    Key::broker("sasl.login.retry.backoff.ms", Kind::Long, Some("100")).doc(""),
    Key::broker("sasl.mechanism.controller.protocol", Kind::String, Some("GSSAPI")).doc(""),
    Key::broker(
        "sasl.mechanism.inter.broker.protocol",
        Kind::String,
        Some("GSSAPI"),
    )
    .per_broker()
    .doc(""),
    Key::broker(
        "sasl.oauthbearer.assertion.algorithm",
        Kind::String,
        Some("RS256"),
    )
    .check(Check::OneOfAnyCase(&["ES256", "RS256"]))
    .doc(""),
    Key::broker("sasl.oauthbearer.assertion.claim.aud", Kind::String, None).doc(""),
    Key::broker(
        "sasl.oauthbearer.assertion.claim.exp.seconds",
        Kind::Int,
        Some("300"),
    )
    .check(Check::Between(0, 86_400))
    .doc(""),
    Key::broker("sasl.oauthbearer.assertion.claim.iss", Kind::String, None).doc(""),
    Key::broker(
        "sasl.oauthbearer.assertion.claim.jti.include",
        Kind::Boolean,
        Some("false"),
    )
    .doc(""),
    Key::broker(
        "sasl.oauthbearer.assertion.claim.nbf.seconds",
        Kind::Int,
        Some("60"),
    )
    .check(Check::Between(0, 3_600))
    .doc(""),
    Key::broker("sasl.oauthbearer.assertion.claim.sub", Kind::String, None).doc(""),
    Key::broker("sasl.oauthbearer.assertion.file", Kind::String, None).doc(""),
    Key::broker("sasl.oauthbearer.assertion.private.key.file", Kind::String, None).doc(""),
    Key::broker(
        "sasl.oauthbearer.assertion.private.key.passphrase",
        Kind::Password,
        None,
    )
    .doc(""),
    Key::broker("sasl.oauthbearer.assertion.template.file", Kind::String, None).doc(""),
    Key::broker(
        "sasl.oauthbearer.client.credentials.client.id",
        Kind::String,
        None,
    )
    .doc(""),
    Key::broker(
        "sasl.oauthbearer.client.credentials.client.secret",
        Kind::Password,
        None,
    )
    .doc(""),
    Key::broker("sasl.oauthbearer.clock.skew.seconds", Kind::Int, Some("30")).doc(""),
    Key::broker("sasl.oauthbearer.expected.audience", Kind::List, Some("")).doc(""),
    Key::broker("sasl.oauthbearer.expected.issuer", Kind::String, None).doc(""),
    Key::broker(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        Kind::Long,
        Some("3600000"),
    )
    .doc(""),
    Key::broker(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        Kind::Long,
        Some("10000"),
    )
    .doc(""),
    Key::broker(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        Kind::Long,
        Some("100"),
    )
    .doc(""),
    Key::broker("sasl.oauthbearer.jwks.endpoint.url", Kind::String, None).doc(""),
    Key::broker(
        "sasl.oauthbearer.jwt.retriever.class",
        Kind::Class,
        Some("org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever"),
    )
    .doc(""),
    Key::broker(
        "sasl.oauthbearer.jwt.validator.class",
        Kind::Class,
        Some("org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator"),
    )
    .doc(""),
    Key::broker("sasl.oauthbearer.scope", Kind::String, None).doc(""),
    Key::broker("sasl.oauthbearer.scope.claim.name", Kind::String, Some("scope")).doc(""),
    Key::broker("sasl.oauthbearer.sub.claim.name", Kind::String, Some("sub")).doc(""),
    Key::broker("sasl.oauthbearer.token.endpoint.url", Kind::String, None).doc(""),
    Key::broker("sasl.server.callback.handler.class", Kind::Class, None).doc(""),
    Key::broker("sasl.server.max.receive.size", Kind::Int, Some("524288")).doc(""),
];
