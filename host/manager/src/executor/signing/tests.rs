//! Keys and requests are openssl's, and openssl judges what is signed.

use std::{path::Path, process::Command, sync::Arc};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use super::*;
use crate::{clock::Clock, entropy::Entropy};

struct At(&'static str);

impl Clock for At {
    fn now(&self) -> jiff::Timestamp {
        self.0.parse().unwrap()
    }
}

/// A directory with a CA whose certificate holds to the end of 2030.
struct Kit {
    dir: tempfile::TempDir,
}

/// Older versions of `openssl req` cannot say until when a certificate holds.
const CA: &str = "printf '[ca]\\ndefault_ca=d\\n[d]\\ndatabase=db\\nnew_certs_dir=.\\nserial=sn\\ndefault_md=default\\npolicy=p\\nx509_extensions=v\\n[p]\\norganizationName=optional\\ncommonName=optional\\n[v]\\nbasicConstraints=critical,CA:true\\nkeyUsage=critical,keyCertSign\\nsubjectKeyIdentifier=hash\\n' > ca.cnf; : > db; echo 01 > sn; openssl req -new -key ca.key -out ca.csr -subj /O=here/CN=ca; openssl ca -config ca.cnf -selfsign -keyfile ca.key -in ca.csr -out ca.crt -startdate 20250101000000Z -enddate 20301231235959Z -batch -notext";
const RSA: &str = "openssl genrsa -out ca.key 2048";

impl Kit {
    fn new(script: &str) -> Self {
        let kit = Self { dir: tempfile::tempdir().unwrap() };
        kit.run(script);
        kit
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), content).unwrap();
    }

    fn run(&self, script: &str) -> String {
        run(self.dir.path(), script)
    }

    /// Keys called `x`, at a time.
    fn keys(&self, now: &'static str) -> KeyFiles {
        let flag = |flag: &str, file: &str| (flag.to_owned(), self.path(file));
        let given = [flag("x-key-file", "ca.key"), flag("x-cert-file", "ca.crt")];
        KeyFiles::new(given.into(), Arc::new(At(now)), Entropy::from_seed(1))
    }

    /// A request with a new key, made of these arguments.
    fn request(&self, args: &str) -> String {
        self.run(&format!("openssl req -new -newkey rsa:2048 -nodes -keyout r.key -out r.csr {args}"));
        self.read("r.csr")
    }
}

fn run(dir: &Path, script: &str) -> String {
    let script = format!("set -e; {script}");
    let made = Command::new("sh").current_dir(dir).args(["-c", &script]).output().unwrap();
    assert!(made.status.success(), "openssl is needed: {script}: {}", String::from_utf8_lossy(&made.stderr));
    String::from_utf8(made.stdout).unwrap()
}

fn certificate(keys: &dyn SigningKeys, asked: &Value) -> Result<String, Failure> {
    let answer = keys.sign("x", &SignWhat::Certificate(asked.to_string()))?;
    Ok(serde_json::from_str(&answer).unwrap())
}

fn asked(request: &str) -> Value {
    json!({
        "request": request,
        "subject": {"organization": ["system:nodes", "Ünï"], "commonName": "system:node:n1"},
        "notBefore": "2025-12-31T23:55:00Z", "notAfter": "2026-12-31T23:55:00Z",
        "keyUsage": ["digitalSignature", "keyEncipherment"], "extendedKeyUsage": ["1.3.6.1.5.5.7.3.2"],
    })
}

const NOW: &str = "2026-01-01T00:00:00Z";
const JUDGE: &str = "openssl verify -attime 1767225600 -x509_strict -CAfile ca.crt c.pem";

#[test]
fn openssl_takes_certificates_of_every_kind_of_key() {
    for make in [
        RSA,
        "openssl genrsa -traditional -out ca.key 3072",
        "openssl ecparam -name prime256v1 -genkey -out ca.key",
        "openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-384 -out ca.key",
        "openssl genpkey -algorithm ED25519 -out ca.key",
    ] {
        let kit = Kit::new(&format!("{make}; {CA}"));
        let request = kit.request("-subj /CN=ignored");
        kit.write("c.pem", certificate(&kit.keys(NOW), &asked(&request)).expect(make));
        assert_eq!(kit.run(JUDGE), "c.pem: OK\n", "{make}");
        let same = "openssl x509 -in c.pem -noout -pubkey > a; openssl pkey -in r.key -pubout > b; cmp a b";
        kit.run(same);
    }
}

#[test]
fn the_certificate_says_what_was_asked_for() {
    let kit = Kit::new(&format!("{RSA}; {CA}"));
    let mut asked = asked(&kit.request("-subj /O=system:masters/CN=admin -addext subjectAltName=DNS:evil"));
    asked["dnsNames"] = json!(["n1.example.com", "n1"]);
    asked["ipAddresses"] = json!(["192.0.2.7", "2001:db8::1"]);
    asked["emailAddresses"] = json!(["a@example.com"]);
    asked["uris"] = json!(["spiffe://example.com/x"]);
    asked["extendedKeyUsage"] = json!(["1.3.6.1.5.5.7.3.1", "1.3.6.1.5.5.7.3.2"]);
    let keys = kit.keys(NOW);
    kit.write("c.pem", certificate(&keys, &asked).unwrap());
    assert_eq!(kit.run(JUDGE), "c.pem: OK\n");
    let text = kit.run(
        "openssl x509 -in c.pem -noout -nameopt RFC2253,utf8,-esc_msb -subject -issuer -startdate -enddate -ext subjectAltName,keyUsage,extendedKeyUsage,basicConstraints",
    );
    let expected = [
        "subject=CN=system:node:n1,O=system:nodes+O=Ünï",
        "issuer=CN=ca,O=here",
        "notBefore=Dec 31 23:55:00 2025 GMT",
        "notAfter=Dec 31 23:55:00 2026 GMT",
        "X509v3 Key Usage: critical",
        "    Digital Signature, Key Encipherment",
        "X509v3 Extended Key Usage: ",
        "    TLS Web Server Authentication, TLS Web Client Authentication",
        "X509v3 Basic Constraints: critical",
        "    CA:FALSE",
        "X509v3 Subject Alternative Name: ",
        "    DNS:n1.example.com, DNS:n1, email:a@example.com, IP Address:192.0.2.7, IP Address:2001:DB8:0:0:0:0:0:1, URI:spiffe://example.com/x",
    ];
    assert_eq!(text.lines().collect::<Vec<_>>(), expected);
    let of = "grep -A1 'Authority Key' | tail -1";
    let id = kit.run(&format!("openssl x509 -in c.pem -noout -text | {of}"));
    let ca = kit.run("openssl x509 -in ca.crt -noout -text | grep -A1 'Subject Key' | tail -1");
    assert_eq!(id.trim(), ca.trim());
    // Another one, with another serial number.
    kit.write("d.pem", certificate(&keys, &asked).unwrap());
    kit.run(
        "test \"$(openssl x509 -in c.pem -noout -serial)\" != \"$(openssl x509 -in d.pem -noout -serial)\"",
    );
}

#[test]
fn a_certificate_without_a_subject_has_critical_names() {
    let kit = Kit::new(&format!("{RSA}; {CA}"));
    let mut asked = asked(&kit.request("-subj /"));
    asked["subject"] = json!({});
    asked["keyUsage"] = json!([]);
    asked["dnsNames"] = json!(["a"]);
    kit.write("c.pem", certificate(&kit.keys(NOW), &asked).unwrap());
    assert_eq!(kit.run(JUDGE), "c.pem: OK\n");
    let text = kit.run("openssl x509 -in c.pem -noout -text");
    assert!(text.contains("X509v3 Subject Alternative Name: critical"), "{text}");
    assert!(!text.contains("X509v3 Key Usage"), "{text}");
}

#[test]
fn no_certificate_outlives_its_issuer() {
    let kit = Kit::new(&format!("{RSA}; {CA}"));
    let mut asked = asked(&kit.request("-subj /CN=a"));
    asked["notAfter"] = json!("2060-01-01T00:00:00Z");
    kit.write("c.pem", certificate(&kit.keys(NOW), &asked).unwrap());
    assert_eq!(kit.run("openssl x509 -in c.pem -noout -enddate"), "notAfter=Dec 31 23:59:59 2030 GMT\n");
    let failure = certificate(&kit.keys("2031-01-01T00:00:00Z"), &asked).unwrap_err();
    assert_eq!(failure.reason, "ServiceUnavailable");
    assert_eq!(failure.message, "the issuer's certificate ended at 2030-12-31T23:59:59Z");
    // Years from 2050 on are written in full.
    kit.run(&CA.replace("20301231235959Z", "20991231235959Z"));
    kit.write("c.pem", certificate(&kit.keys(NOW), &asked).unwrap());
    assert_eq!(kit.run("openssl x509 -in c.pem -noout -enddate"), "notAfter=Jan  1 00:00:00 2060 GMT\n");
}

#[test]
fn what_is_wrong_with_a_question_is_said() {
    let kit = Kit::new(&format!("{RSA}; {CA}"));
    let keys = kit.keys(NOW);
    let request = kit.request("-subj /CN=a");
    let change = |path: &str, value: Value| {
        let mut asked = asked(&request);
        asked[path] = value;
        certificate(&keys, &asked).unwrap_err()
    };
    // The same key's signature under other words.
    kit.run("openssl req -in r.csr -outform DER -out r.der");
    let mut der = std::fs::read(kit.path("r.der")).unwrap();
    let at = der.windows(3).position(|bytes| bytes == [0x0c, 1, b'a']).unwrap();
    der[at + 2] = b'b';
    kit.write("r.der", der);
    kit.run("openssl req -inform DER -in r.der -out forged.csr");
    kit.run(
        "openssl ecparam -name secp521r1 -genkey -out k; openssl req -new -key k -subj /CN=a -out 521.csr",
    );
    for (failure, message) in [
        (change("request", json!(kit.read("forged.csr"))), "the signature of the request does not hold"),
        (change("request", json!("")), "the request is not PEM: no items found"),
        (change("request", json!(kit.read("ca.crt"))), "the request is not a CERTIFICATE REQUEST"),
        (change("request", json!(kit.read("521.csr"))), "are not supported"),
        (change("keyUsage", json!(["all"])), "keyUsage: there is no \"all\""),
        (
            change("extendedKeyUsage", json!(["client"])),
            "extendedKeyUsage: \"client\" is no object identifier",
        ),
        (change("dnsNames", json!(["münchen"])), "cannot be written"),
        (change("isCA", json!(true)), "unknown field `isCA`"),
        (change("notAfter", json!("soon")), "the certificate asked for"),
    ] {
        assert_eq!(failure.reason, "Invalid", "{message}");
        assert!(failure.message.contains(message), "{}: {message}", failure.message);
    }
}

fn token(keys: &dyn SigningKeys, claims: &str) -> Result<Vec<String>, Failure> {
    let answer = keys.sign("x", &SignWhat::Token(claims.to_owned()))?;
    let token: String = serde_json::from_str(&answer).unwrap();
    Ok(token.split('.').map(str::to_owned).collect())
}

#[test]
fn openssl_takes_tokens() {
    for (make, algorithm) in [
        (RSA, "RS256"),
        ("openssl ecparam -name prime256v1 -genkey -out ca.key", "ES256"),
        ("openssl ecparam -name secp384r1 -genkey -out ca.key", "ES384"),
    ] {
        let kit = Kit::new(make);
        let given = [("x-key-file".to_owned(), kit.path("ca.key"))];
        let keys = KeyFiles::new(given.into(), Arc::new(At(NOW)), Entropy::from_seed(1));
        let claims = r#"{"sub":"a", "iss" : "b"}"#;
        let parts = token(&keys, claims).unwrap();
        let decoded: Vec<_> = parts.iter().map(|part| URL_SAFE_NO_PAD.decode(part).unwrap()).collect();
        assert_eq!(String::from_utf8(decoded[1].clone()).unwrap(), claims, "byte for byte");
        let kid = kit.run(
            "openssl pkey -in ca.key -pubout -outform DER | openssl dgst -sha256 -binary | base64 | tr '+/' '-_' | tr -d '='",
        );
        let header = format!(r#"{{"alg":"{algorithm}","kid":"{}"}}"#, kid.trim());
        assert_eq!(String::from_utf8(decoded[0].clone()).unwrap(), header);
        kit.write("signed", format!("{}.{}", parts[0], parts[1]));
        let hash = if algorithm.ends_with("384") { "sha384" } else { "sha256" };
        kit.write("signature", to_openssl(&decoded[2], algorithm.starts_with("ES")));
        kit.run("openssl pkey -in ca.key -pubout -out pub");
        let verdict = kit.run(&format!("openssl dgst -{hash} -verify pub -signature signature signed"));
        assert_eq!(verdict, "Verified OK\n", "{header}");
    }
}

/// The two numbers of an ECDSA signature as openssl wants them: in DER.
fn to_openssl(signature: &[u8], ecdsa: bool) -> Vec<u8> {
    if !ecdsa {
        return signature.to_vec();
    }
    let (r, s) = signature.split_at(signature.len() / 2);
    let number = |bytes: &[u8]| {
        let at = bytes.iter().position(|b| *b != 0).unwrap_or(0);
        let pad = if bytes[at] & 0x80 == 0 { vec![] } else { vec![0] };
        let body = [pad, bytes[at..].to_vec()].concat();
        [vec![2, body.len() as u8], body].concat()
    };
    let body = [number(r), number(s)].concat();
    [vec![0x30, body.len() as u8], body].concat()
}

#[test]
fn tokens_need_claims_and_a_key_that_is_fit() {
    let kit = Kit::new(&format!("{RSA}; {CA}"));
    for claims in ["", "[]", "\"a\"", "{\"a\":1"] {
        assert_eq!(token(&kit.keys(NOW), claims).unwrap_err().reason, "Invalid", "{claims:?}");
    }
    let kit = Kit::new(&format!("openssl genpkey -algorithm ED25519 -out ca.key; {CA}"));
    let failure = token(&kit.keys(NOW), "{}").unwrap_err();
    assert!(failure.message.contains("Ed25519"), "{}", failure.message);
}

#[test]
fn what_is_wrong_with_the_files_is_said() {
    let kit = Kit::new(&format!("{RSA}; {CA}; cp ca.key good.key; cp ca.crt good.crt"));
    kit.run("openssl genrsa -out ca.key 2048; openssl req -x509 -key ca.key -out other.crt -subj /CN=other -days 10");
    kit.run("openssl genrsa -out small.key 1024; cat good.crt other.crt > two.crt; echo > empty");
    let keys = |key: &str, certificate: Option<&str>| {
        let key = ("x-key-file".to_owned(), kit.path(key));
        let certificate = certificate.map(|file| ("x-cert-file".to_owned(), kit.path(file)));
        let given = std::iter::once(key).chain(certificate).collect();
        KeyFiles::new(given, Arc::new(At(NOW)), Entropy::from_seed(1))
    };
    let asked = asked(&kit.request("-subj /CN=a"));
    for (key, certificate_file, message) in [
        ("none", Some("good.crt"), "--x-key-file: cannot read"),
        ("empty", Some("good.crt"), "there is no private key in it"),
        ("good.crt", Some("good.crt"), "there is no private key in it"),
        ("small.key", Some("good.crt"), "its private key cannot be used"),
        ("good.key", Some("none"), "--x-cert-file: cannot read"),
        ("good.key", Some("empty"), "expected one certificate in it, found 0"),
        ("good.key", Some("two.crt"), "expected one certificate in it, found 2"),
        ("good.key", Some("other.crt"), "it is not the certificate of the private key"),
        ("good.key", None, "the key has no certificate to issue others with"),
    ] {
        let failure = certificate(&keys(key, certificate_file), &asked).unwrap_err();
        assert_eq!(failure.reason, "ServiceUnavailable", "{message}");
        assert!(failure.message.contains(message), "{}: {message}", failure.message);
    }
    let nobody = KeyFiles::new(Default::default(), Arc::new(At(NOW)), Entropy::from_seed(1));
    let failure = certificate(&nobody, &asked).unwrap_err();
    assert_eq!((failure.reason.as_str(), failure.status), ("NotFound", 0));
    assert!(failure.message.contains("--x-key-file"), "{}", failure.message);
}

#[test]
fn files_are_read_again_and_a_bad_pair_never_replaces_a_good_one() {
    let kit = Kit::new(&format!("{RSA}; {CA}; cp ca.crt first.crt; echo nothing > ca.key"));
    let keys = kit.keys(NOW);
    let asked = asked(&kit.request("-subj /CN=a"));
    assert_eq!(certificate(&keys, &asked).unwrap_err().reason, "ServiceUnavailable");
    let issued_by = |ca: &str| {
        kit.write("c.pem", certificate(&keys, &asked).unwrap());
        let verdict = kit.run(&format!("openssl verify -attime 1767225600 -CAfile {ca} c.pem"));
        assert_eq!(verdict, "c.pem: OK\n");
    };
    kit.run(&format!("{RSA}; {CA}; cp ca.crt first.crt"));
    issued_by("first.crt");
    // The key is exchanged before the certificate.
    kit.run(RSA);
    issued_by("first.crt");
    kit.run("rm ca.crt");
    issued_by("first.crt");
    kit.run(CA);
    issued_by("ca.crt");
}
