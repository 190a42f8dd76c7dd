//! TLS, authorization, and classes to load.

use super::super::key::{Check, Key, Kind};

pub(super) const KEYS: &[Key] = &[
    Key::broker("alter.config.policy.class.name", Kind::Class, None).doc(""),
    Key::broker("authorizer.class.name", Kind::String, Some("")).doc(""),
    Key::broker("client.quota.callback.class", Kind::Class, None).doc(""),
    Key::broker("config.providers", Kind::List, Some(""))
        .cluster_wide()
        .doc(""),
    Key::broker(
        "connection.failed.authentication.delay.ms",
        Kind::Int,
        Some("100"),
    )
    .at_least(0)
    .doc(""),
    Key::broker("connections.max.reauth.ms", Kind::Long, Some("0")).doc(""),
    Key::broker("create.topic.policy.class.name", Kind::Class, None).doc(""),
    Key::broker(
        "delegation.token.expiry.check.interval.ms",
        Kind::Long,
        Some("3600000"),
    )
    .at_least(1)
    .doc(""),
    Key::broker("delegation.token.expiry.time.ms", Kind::Long, Some("86400000"))
        .at_least(1)
        .doc(""),
    Key::broker("delegation.token.max.lifetime.ms", Kind::Long, Some("604800000"))
        .at_least(1)
        .doc(""),
    Key::broker("delegation.token.secret.key", Kind::Password, None).doc(""),
    Key::broker("early.start.listeners", Kind::List, None).doc(""),
    Key::broker(
        "principal.builder.class",
        Kind::Class,
        Some("org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"),
    )
    .per_broker()
    .doc(""),
    Key::broker("security.inter.broker.protocol", Kind::String, Some("PLAINTEXT"))
        .check(Check::OneOf(&["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]))
        .doc(""),
    Key::broker("security.providers", Kind::String, None).doc(""),
    Key::broker("ssl.allow.dn.changes", Kind::Boolean, Some("false")).doc(""),
    Key::broker("ssl.allow.san.changes", Kind::Boolean, Some("false")).doc(""),
    Key::broker("ssl.cipher.suites", Kind::List, Some(""))
        .per_broker()
        .doc(""),
    Key::broker("ssl.client.auth", Kind::String, Some("none"))
        .per_broker()
        .check(Check::OneOf(&["required", "requested", "none"]))
        .doc(""),
    Key::broker("ssl.enabled.protocols", Kind::List, Some("TLSv1.2,TLSv1.3"))
        .per_broker()
        .doc(""),
    Key::broker(
        "ssl.endpoint.identification.algorithm",
        Kind::String,
        Some("https"),
    )
    .per_broker()
    .doc(""),
    Key::broker("ssl.engine.factory.class", Kind::Class, None)
        .per_broker()
        .doc(""),
    Key::broker("ssl.key.password", Kind::Password, None)
        .per_broker()
        .doc(""),
    Key::broker("ssl.keymanager.algorithm", Kind::String, Some("SunX509"))
        .per_broker()
        .doc(""),
    Key::broker("ssl.keystore.certificate.chain", Kind::Password, None)
        .per_broker()
        .doc(""),
    Key::broker("ssl.keystore.key", Kind::Password, None)
        .per_broker()
        .doc(""),
    Key::broker("ssl.keystore.location", Kind::String, None)
        .per_broker()
        .doc(""),
    Key::broker("ssl.keystore.password", Kind::Password, None)
        .per_broker()
        .doc(""),
    Key::broker("ssl.keystore.type", Kind::String, Some("JKS"))
        .per_broker()
        .doc(""),
    Key::broker("ssl.principal.mapping.rules", Kind::String, Some("DEFAULT")).doc(""),
    Key::broker("ssl.protocol", Kind::String, Some("TLSv1.3"))
        .per_broker()
        .doc(""),
    Key::broker("ssl.provider", Kind::String, None)
        .per_broker()
        .doc(""),
    Key::broker("ssl.secure.random.implementation", Kind::String, None)
        .per_broker()
        .doc(""),
    Key::broker("ssl.trustmanager.algorithm", Kind::String, Some("PKIX"))
        .per_broker()
        .doc(""),
    Key::broker("ssl.truststore.certificates", Kind::Password, None)
        .per_broker()
        .doc(""),
    Key::broker("ssl.truststore.location", Kind::String, None)
        .per_broker()
        .doc(""),
    Key::broker("ssl.truststore.password", Kind::Password, None)
        .per_broker()
        .doc(""),
    Key::broker("ssl.truststore.type", Kind::String, Some("JKS"))
        .per_broker()
        .doc(""),
];
