use super::*;

/// `openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -utf8 -subj
/// '/C=DE/O=a/O=Zwölf/OU=u/L=l/ST=s/CN=first/CN=system:node:n1/emailAddress=x'
/// -addext subjectAltName=DNS:a.example,DNS:b,IP:192.0.2.1,IP:2001:db8::1,
/// email:a@example.com,URI:spiffe://x/y,RID:1.2.3`
const REQUEST: &str = include_str!("request.pem");
/// `openssl req -x509 -days 36500`, made in 2026.
const LONG: &str = include_str!("long.pem");
/// As above, for ten days.
const SHORT: &str = include_str!("short.pem");

#[test]
fn a_request_says_who_it_is_for() {
    let request = request(REQUEST.as_bytes()).unwrap();
    let subject = Subject {
        country: vec!["DE".into()],
        organization: vec!["a".into(), "Zwölf".into()],
        organizational_unit: vec!["u".into()],
        locality: vec!["l".into()],
        province: vec!["s".into()],
        common_name: "system:node:n1".into(),
        ..Subject::default()
    };
    assert_eq!(request.subject, subject);
    assert_eq!(request.dns_names, ["a.example", "b"]);
    assert_eq!(request.email_addresses, ["a@example.com"]);
    assert_eq!(request.uris, ["spiffe://x/y"]);
    let addresses: [IpAddr; 2] = ["192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap()];
    assert_eq!(request.ip_addresses, addresses);
    let json = serde_json::to_value(&request.subject).unwrap();
    assert_eq!(json["organizationalUnit"][0], "u");
    assert_eq!(json.get("streetAddress"), None);
}

#[test]
fn what_is_no_request_is_refused() {
    assert!(request(b"").is_err());
    assert!(request(SHORT.as_bytes()).is_err());
    assert!(request(&REQUEST.as_bytes()[..REQUEST.len() / 2]).is_err());
    let (_, der) = block(REQUEST.as_bytes()).unwrap();
    for length in 0..der.len() {
        assert!(request_of(&der[..length]).is_err(), "{length} bytes");
    }
    assert!(request_of(&[&der[..], &[0]].concat()).is_err());
}

#[test]
fn no_byte_makes_it_panic() {
    let (_, der) = block(REQUEST.as_bytes()).unwrap();
    for at in 0..der.len() {
        for byte in [0, 0x1f, 0x30, 0x7f, 0x80, 0x84, 0xff] {
            let mut broken = der.clone();
            broken[at] = byte;
            let _ = request_of(&broken);
        }
    }
}

#[test]
fn an_extension_is_asked_for_once() {
    fn der(tag: u8, parts: &[Vec<u8>]) -> Vec<u8> {
        let content = parts.concat();
        [&[tag, u8::try_from(content.len()).unwrap()][..], &content].concat()
    }
    let id = |bytes: &[u8]| der(OBJECT_IDENTIFIER, &[bytes.to_vec()]);
    let name = |name: &str| der(SEQUENCE, &[der(0x82, &[name.as_bytes().to_vec()])]);
    let extension = |name: Vec<u8>| der(SEQUENCE, &[id(ALTERNATIVE_NAMES), der(OCTET_STRING, &[name])]);
    let attribute = |extensions: &[Vec<u8>]| {
        der(SEQUENCE, &[id(EXTENSION_REQUEST), der(SET, &[der(SEQUENCE, extensions)])])
    };
    let request = |attributes: &[Vec<u8>]| {
        let empty = || der(SEQUENCE, &[]);
        let info = der(SEQUENCE, &[der(INTEGER, &[vec![0]]), empty(), empty(), der(0xa0, attributes)]);
        request_of(&der(SEQUENCE, &[info, empty(), der(BIT_STRING, &[vec![0]])]))
    };
    let (a, b) = (extension(name("a")), extension(name("b")));
    assert_eq!(request(&[attribute(std::slice::from_ref(&a))]).unwrap().dns_names, ["a"]);
    let twice = Err("certificate request contains duplicate requested extensions");
    assert_eq!(request(&[attribute(&[a.clone(), b.clone()])]), twice);
    assert_eq!(request(&[attribute(&[a]), attribute(&[b])]), twice);
}

#[test]
fn names_of_every_kind_of_string() {
    for (tag, bytes, read) in [
        (0x0c, "ü".as_bytes(), Ok(Some("ü"))),
        (0x0c, &[0xff], Err("a name is not UTF-8")),
        (0x13, b"a", Ok(Some("a"))),
        (0x13, &[0xe4], Err("a name is not ASCII")),
        (0x16, b"a@b", Ok(Some("a@b"))),
        (0x1e, &[0, b'a', 0x20, 0xac], Ok(Some("a€"))),
        (0x1e, &[0, b'a', 0x20], Err("a name is not UTF-16")),
        (0x02, &[5], Ok(None)),
    ] {
        assert_eq!(text(tag, bytes), read.map(|text| text.map(str::to_owned)), "{tag} {bytes:?}");
    }
}

#[test]
fn a_certificate_ends() {
    assert_eq!(not_after(SHORT.as_bytes()).unwrap().to_string(), include_str!("short.end").trim());
    assert_eq!(not_after(LONG.as_bytes()).unwrap().to_string(), include_str!("long.end").trim());
    for pem in [
        "",
        "-----BEGIN CERTIFICATE-----\n",
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    ] {
        assert_eq!(not_after(pem.as_bytes()), None, "{pem}");
    }
    for (tag, text, end) in [
        (0x17, "490101000000Z", Some("2049-01-01T00:00:00Z")),
        (0x17, "500101000000Z", Some("1950-01-01T00:00:00Z")),
        (0x18, "20500101000000Z", Some("2050-01-01T00:00:00Z")),
        (0x17, "20500101000000Z", None),
        (0x18, "490101000000Z", None),
        (0x17, "491301000000Z", None),
        (0x17, "4901010000000", None),
        (0x02, "490101000000Z", None),
    ] {
        assert_eq!(time(tag, text.as_bytes()).map(|t| t.to_string()).as_deref(), end, "{text}");
    }
}

#[test]
fn pem_has_a_label_and_text_around_it() {
    let text = b"hello\n-----BEGIN A B-----\r\nProc-Type: 4\r\n\r\nAQID\r\nBA==\r\n-----END A B-----\nbye";
    assert_eq!(block(text), Some(("A B".to_owned(), vec![1, 2, 3, 4])));
    assert_eq!(block(b"-----BEGIN A-----\nAQID\n-----END B-----\n"), None);
    assert_eq!(block(b"-----BEGIN A-----\n!!\n-----END A-----\n"), None);
}
