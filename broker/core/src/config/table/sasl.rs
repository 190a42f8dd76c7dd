//! SASL.

use super::super::key::{Check, Effect, Key, Kind};

const SASL: Effect = Effect::Refused("SASL is not served yet: run it in a private network");
const SASL_DETAIL: Effect = Effect::Without("SASL is not served yet");
const NO_CLASSES: Effect = Effect::Refused("Java classes cannot be loaded");

pub(super) const KEYS: &[Key] = &[
    Key::broker("sasl.client.callback.handler.class", Kind::Class, None)
        .effect(NO_CLASSES)
        .doc("A class that answers the client side of SASL."),
    Key::broker("sasl.enabled.mechanisms", Kind::List, Some("GSSAPI"))
        .per_broker()
        .effect(SASL)
        .doc("The mechanisms that clients may use."),
    Key::broker("sasl.jaas.config", Kind::Password, None)
        .per_broker()
        .effect(SASL)
        .doc("The login configuration."),
    Key::broker("sasl.kerberos.kinit.cmd", Kind::String, Some("/usr/bin/kinit"))
        .per_broker()
        .effect(SASL_DETAIL)
        .doc("Where kinit is."),
    Key::broker("sasl.kerberos.min.time.before.relogin", Kind::Long, Some("60000"))
        .per_broker()
        .effect(SASL_DETAIL)
        .doc("The least time between two Kerberos logins."),
    Key::broker(
        "sasl.kerberos.principal.to.local.rules",
        Kind::List,
        Some("DEFAULT"),
    )
    .per_broker()
    .effect(SASL_DETAIL)
    .doc("Rules that turn Kerberos principals into user names."),
    Key::broker("sasl.kerberos.service.name", Kind::String, None)
        .per_broker()
        .effect(SASL)
        .doc("The Kerberos name of the broker."),
    Key::broker("sasl.kerberos.ticket.renew.jitter", Kind::Double, Some("0.05"))
        .per_broker()
        .effect(SASL_DETAIL)
        .doc("How much the time of renewal varies."),
    Key::broker(
        "sasl.kerberos.ticket.renew.window.factor",
        Kind::Double,
        Some("0.8"),
    )
    .per_broker()
    .effect(SASL_DETAIL)
    .doc("At which part of a ticket's life it is renewed."),
    Key::broker("sasl.login.callback.handler.class", Kind::Class, None)
        .effect(NO_CLASSES)
        .doc("A class that answers the login."),
    Key::broker("sasl.login.class", Kind::Class, None)
        .effect(NO_CLASSES)
        .doc("The class that logs in."),
    Key::broker("sasl.login.connect.timeout.ms", Kind::Int, None)
        .effect(SASL_DETAIL)
        .doc("How long connecting to an identity provider may take."),
    Key::broker("sasl.login.read.timeout.ms", Kind::Int, None)
        .effect(SASL_DETAIL)
        .doc("How long reading from an identity provider may take."),
    Key::broker("sasl.login.refresh.buffer.seconds", Kind::Short, Some("300"))
        .per_broker()
        .effect(SASL_DETAIL)
        .doc("How long before its end a credential is refreshed at the latest."),
    Key::broker("sasl.login.refresh.min.period.seconds", Kind::Short, Some("60"))
        .per_broker()
        .effect(SASL_DETAIL)
        .doc("The least time between two refreshes of a credential."),
    Key::broker("sasl.login.refresh.window.factor", Kind::Double, Some("0.8"))
        .per_broker()
        .effect(SASL_DETAIL)
        .doc("At which part of a credential's life it is refreshed."),
    Key::broker("sasl.login.refresh.window.jitter", Kind::Double, Some("0.05"))
        .per_broker()
        .effect(SASL_DETAIL)
        .doc("How much that time varies."),
    Key::broker("sasl.login.retry.backoff.max.ms", Kind::Long, Some("10000"))
        .effect(SASL_DETAIL)
        .doc("The longest pause between two logins."),
    Key::broker("sasl.login.retry.backoff.ms", Kind::Long, Some("100"))
        .effect(SASL_DETAIL)
        .doc("The first pause between two logins."),
    Key::broker("sasl.mechanism.controller.protocol", Kind::String, Some("GSSAPI"))
        .effect(SASL_DETAIL)
        .doc("The mechanism used with controllers."),
    Key::broker(
        "sasl.mechanism.inter.broker.protocol",
        Kind::String,
        Some("GSSAPI"),
    )
    .per_broker()
    .effect(SASL_DETAIL)
    .doc("The mechanism used among nodes."),
    Key::broker(
        "sasl.oauthbearer.assertion.algorithm",
        Kind::String,
        Some("RS256"),
    )
    .check(Check::OneOfAnyCase(&["ES256", "RS256"]))
    .effect(SASL_DETAIL)
    .doc("The algorithm that assertions are signed with."),
    Key::broker("sasl.oauthbearer.assertion.claim.aud", Kind::String, None)
        .effect(SASL_DETAIL)
        .doc("The audience of an assertion."),
    Key::broker(
        "sasl.oauthbearer.assertion.claim.exp.seconds",
        Kind::Int,
        Some("300"),
    )
    .check(Check::Between(0, 86_400))
    .effect(SASL_DETAIL)
    .doc("For how long an assertion holds."),
    Key::broker("sasl.oauthbearer.assertion.claim.iss", Kind::String, None)
        .effect(SASL_DETAIL)
        .doc("The issuer of an assertion."),
    Key::broker(
        "sasl.oauthbearer.assertion.claim.jti.include",
        Kind::Boolean,
        Some("false"),
    )
    .effect(SASL_DETAIL)
    .doc("Whether an assertion has an id."),
    Key::broker(
        "sasl.oauthbearer.assertion.claim.nbf.seconds",
        Kind::Int,
        Some("60"),
    )
    .check(Check::Between(0, 3_600))
    .effect(SASL_DETAIL)
    .doc("How far an assertion's start lies in the past."),
    Key::broker("sasl.oauthbearer.assertion.claim.sub", Kind::String, None)
        .effect(SASL_DETAIL)
        .doc("The subject of an assertion."),
    Key::broker("sasl.oauthbearer.assertion.file", Kind::String, None)
        .effect(SASL_DETAIL)
        .doc("A file with a ready assertion."),
    Key::broker("sasl.oauthbearer.assertion.private.key.file", Kind::String, None)
        .effect(SASL_DETAIL)
        .doc("The key that assertions are signed with."),
    Key::broker(
        "sasl.oauthbearer.assertion.private.key.passphrase",
        Kind::Password,
        None,
    )
    .effect(SASL_DETAIL)
    .doc("The secret of that key."),
    Key::broker("sasl.oauthbearer.assertion.template.file", Kind::String, None)
        .effect(SASL_DETAIL)
        .doc("A file with more claims of an assertion."),
    Key::broker(
        "sasl.oauthbearer.client.credentials.client.id",
        Kind::String,
        None,
    )
    .effect(SASL_DETAIL)
    .doc("The id that tokens are asked for with."),
    Key::broker(
        "sasl.oauthbearer.client.credentials.client.secret",
        Kind::Password,
        None,
    )
    .effect(SASL_DETAIL)
    .doc("The secret that tokens are asked for with."),
    Key::broker("sasl.oauthbearer.clock.skew.seconds", Kind::Int, Some("30"))
        .effect(SASL_DETAIL)
        .doc("How far the clocks of broker and issuer may differ."),
    Key::broker("sasl.oauthbearer.expected.audience", Kind::List, Some(""))
        .effect(SASL_DETAIL)
        .doc("The audience that tokens must name."),
    Key::broker("sasl.oauthbearer.expected.issuer", Kind::String, None)
        .effect(SASL_DETAIL)
        .doc("The issuer that tokens must name."),
    Key::broker(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        Kind::Long,
        Some("3600000"),
    )
    .effect(SASL_DETAIL)
    .doc("How often the issuer's keys are fetched."),
    Key::broker(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        Kind::Long,
        Some("10000"),
    )
    .effect(SASL_DETAIL)
    .doc("The longest pause between two tries of fetching the issuer's keys."),
    Key::broker(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        Kind::Long,
        Some("100"),
    )
    .effect(SASL_DETAIL)
    .doc("The first pause between two tries of fetching the issuer's keys."),
    Key::broker("sasl.oauthbearer.jwks.endpoint.url", Kind::String, None)
        .effect(SASL_DETAIL)
        .doc("Where the issuer's keys are."),
    Key::broker(
        "sasl.oauthbearer.jwt.retriever.class",
        Kind::Class,
        Some("org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever"),
    )
    .effect(SASL_DETAIL)
    .doc("The class that fetches tokens."),
    Key::broker(
        "sasl.oauthbearer.jwt.validator.class",
        Kind::Class,
        Some("org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator"),
    )
    .effect(SASL_DETAIL)
    .doc("The class that checks tokens."),
    Key::broker("sasl.oauthbearer.scope", Kind::String, None)
        .effect(SASL_DETAIL)
        .doc("The scope that tokens are asked for."),
    Key::broker("sasl.oauthbearer.scope.claim.name", Kind::String, Some("scope"))
        .effect(SASL_DETAIL)
        .doc("The claim that holds the scope."),
    Key::broker("sasl.oauthbearer.sub.claim.name", Kind::String, Some("sub"))
        .effect(SASL_DETAIL)
        .doc("The claim that holds the user."),
    Key::broker("sasl.oauthbearer.token.endpoint.url", Kind::String, None)
        .effect(SASL_DETAIL)
        .doc("Where tokens are asked for."),
    Key::broker("sasl.server.callback.handler.class", Kind::Class, None)
        .effect(NO_CLASSES)
        .doc("A class that answers the server side of SASL."),
    Key::broker("sasl.server.max.receive.size", Kind::Int, Some("524288"))
        .effect(SASL_DETAIL)
        .doc("The largest request before authentication."),
];
