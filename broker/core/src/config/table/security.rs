//! TLS, authorization, and classes to load.

use super::super::key::{Check, Effect, Key, Kind};

const NO_AUTHORIZATION: Effect = Effect::Without("there is no authorization yet");
const TLS: Effect = Effect::Refused("TLS is not served yet: run it in a private network");
const TLS_DETAIL: Effect = Effect::Without("TLS is not served yet");
const SASL_DETAIL: Effect = Effect::Without("SASL is not served yet");
const NO_CLASSES: Effect = Effect::Refused("Java classes cannot be loaded");

pub(super) const KEYS: &[Key] = &[
    Key::broker("alter.config.policy.class.name", Kind::Class, None)
        .effect(NO_CLASSES)
        .doc("A class that judges changes of configuration."),
    Key::broker("authorizer.class.name", Kind::String, Some(""))
        .effect(Effect::Refused(
            "access control is not served yet: run it in a private network",
        ))
        .doc("The class that decides who may do what."),
    Key::broker("client.quota.callback.class", Kind::Class, None)
        .effect(NO_CLASSES)
        .doc("A class that assigns clients to quotas."),
    Key::broker("config.providers", Kind::List, Some(""))
        .cluster_wide()
        .effect(NO_CLASSES)
        .doc("Classes that fetch values from elsewhere."),
    Key::broker(
        "connection.failed.authentication.delay.ms",
        Kind::Int,
        Some("100"),
    )
    .at_least(0)
    .effect(SASL_DETAIL)
    .doc("How long the answer to a failed authentication is delayed."),
    Key::broker("connections.max.reauth.ms", Kind::Long, Some("0"))
        .effect(SASL_DETAIL)
        .doc("How long an authenticated session may last."),
    Key::broker("create.topic.policy.class.name", Kind::Class, None)
        .effect(NO_CLASSES)
        .doc("A class that judges new topics."),
    Key::broker(
        "delegation.token.expiry.check.interval.ms",
        Kind::Long,
        Some("3600000"),
    )
    .at_least(1)
    .effect(SASL_DETAIL)
    .doc("How often expired tokens are removed."),
    Key::broker("delegation.token.expiry.time.ms", Kind::Long, Some("86400000"))
        .at_least(1)
        .effect(SASL_DETAIL)
        .doc("How long a token holds unless it is renewed."),
    Key::broker("delegation.token.max.lifetime.ms", Kind::Long, Some("604800000"))
        .at_least(1)
        .effect(SASL_DETAIL)
        .doc("How long a token can be renewed."),
    Key::broker("delegation.token.secret.key", Kind::Password, None)
        .effect(Effect::Refused("delegation tokens are not served"))
        .doc("The secret that tokens are signed with."),
    Key::broker("early.start.listeners", Kind::List, None)
        .effect(NO_AUTHORIZATION)
        .doc("Listeners that open before authorization is loaded."),
    Key::broker(
        "principal.builder.class",
        Kind::Class,
        Some("org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"),
    )
    .per_broker()
    .effect(NO_CLASSES)
    .doc("A class that names the user of a connection."),
    Key::broker("security.inter.broker.protocol", Kind::String, Some("PLAINTEXT"))
        .check(Check::OneOf(&["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]))
        .effect(Effect::Refused("only PLAINTEXT is served"))
        .doc("The protocol among nodes."),
    Key::broker("security.providers", Kind::String, None)
        .effect(NO_CLASSES)
        .doc("Classes that provide security algorithms."),
    Key::broker("ssl.allow.dn.changes", Kind::Boolean, Some("false"))
        .effect(TLS_DETAIL)
        .doc("Whether a new certificate may name someone else."),
    Key::broker("ssl.allow.san.changes", Kind::Boolean, Some("false"))
        .effect(TLS_DETAIL)
        .doc("Whether a new certificate may name other hosts."),
    Key::broker("ssl.cipher.suites", Kind::List, Some(""))
        .per_broker()
        .effect(TLS_DETAIL)
        .doc("The cipher suites."),
    Key::broker("ssl.client.auth", Kind::String, Some("none"))
        .per_broker()
        .check(Check::OneOf(&["required", "requested", "none"]))
        .effect(TLS)
        .doc("Whether clients need a certificate."),
    Key::broker("ssl.enabled.protocols", Kind::List, Some("TLSv1.2,TLSv1.3"))
        .per_broker()
        .effect(TLS_DETAIL)
        .doc("The versions of TLS."),
    Key::broker(
        "ssl.endpoint.identification.algorithm",
        Kind::String,
        Some("https"),
    )
    .per_broker()
    .effect(TLS_DETAIL)
    .doc("How names in certificates are checked."),
    Key::broker("ssl.engine.factory.class", Kind::Class, None)
        .per_broker()
        .effect(NO_CLASSES)
        .doc("A class that makes TLS engines."),
    Key::broker("ssl.key.password", Kind::Password, None)
        .per_broker()
        .effect(TLS_DETAIL)
        .doc("The secret of the private key."),
    Key::broker("ssl.keymanager.algorithm", Kind::String, Some("SunX509"))
        .per_broker()
        .effect(TLS_DETAIL)
        .doc("The algorithm of the key manager."),
    Key::broker("ssl.keystore.certificate.chain", Kind::Password, None)
        .per_broker()
        .effect(TLS)
        .doc("The certificates of the broker."),
    Key::broker("ssl.keystore.key", Kind::Password, None)
        .per_broker()
        .effect(TLS)
        .doc("The private key of the broker."),
    Key::broker("ssl.keystore.location", Kind::String, None)
        .per_broker()
        .effect(TLS)
        .doc("The file with the broker's key and certificates."),
    Key::broker("ssl.keystore.password", Kind::Password, None)
        .per_broker()
        .effect(TLS_DETAIL)
        .doc("The secret of that file."),
    Key::broker("ssl.keystore.type", Kind::String, Some("JKS"))
        .per_broker()
        .effect(TLS_DETAIL)
        .doc("The format of that file."),
    Key::broker("ssl.principal.mapping.rules", Kind::String, Some("DEFAULT"))
        .effect(TLS_DETAIL)
        .doc("Rules that turn names in certificates into user names."),
    Key::broker("ssl.protocol", Kind::String, Some("TLSv1.3"))
        .per_broker()
        .effect(TLS_DETAIL)
        .doc("The newest version of TLS."),
    Key::broker("ssl.provider", Kind::String, None)
        .per_broker()
        .effect(TLS_DETAIL)
        .doc("The provider of TLS."),
    Key::broker("ssl.secure.random.implementation", Kind::String, None)
        .per_broker()
        .effect(TLS_DETAIL)
        .doc("The random number generator."),
    Key::broker("ssl.trustmanager.algorithm", Kind::String, Some("PKIX"))
        .per_broker()
        .effect(TLS_DETAIL)
        .doc("The algorithm of the trust manager."),
    Key::broker("ssl.truststore.certificates", Kind::Password, None)
        .per_broker()
        .effect(TLS)
        .doc("The certificates that are trusted."),
    Key::broker("ssl.truststore.location", Kind::String, None)
        .per_broker()
        .effect(TLS)
        .doc("The file with the certificates that are trusted."),
    Key::broker("ssl.truststore.password", Kind::Password, None)
        .per_broker()
        .effect(TLS_DETAIL)
        .doc("The secret of that file."),
    Key::broker("ssl.truststore.type", Kind::String, Some("JKS"))
        .per_broker()
        .effect(TLS_DETAIL)
        .doc("The format of that file."),
];
