"""TLS: sound versions and ciphers for servers, and the user's name in a client's certificate."""

from __future__ import annotations

import ssl
import time
from typing import Any

# For TLS 1.2: forward secrecy and authenticated encryption, nothing else. Those of 1.3 are all sound.
CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
VERIFICATION = {"none": ssl.CERT_NONE, "optional": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
ALTERNATIVE_NAMES = {"dns": "DNS", "email": "email", "uri": "URI"}
SHORT_NAMES = {
    "commonName": "CN",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "countryName": "C",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "domainComponent": "DC",
}


class TLSError(OSError):
    """Certificates that cannot be used; the text says which and why."""


def certificate_end(file: str) -> float:
    """When the first certificate in a file ends, in seconds since 1970."""
    return certificate_dates(file)[1]


def certificate_dates(file: str) -> tuple[float, float]:
    """When the first certificate in a file begins and ends to be valid."""
    # The one reader of certificates in the standard library. It is private, and older than most that is not.
    decoded: dict[str, str] = ssl._ssl._test_decode_cert(file)  # type: ignore[attr-defined]
    begin, end = (ssl.cert_time_to_seconds(decoded[name]) for name in ("notBefore", "notAfter"))
    return float(begin), float(end)


def date_problem(file: str, now: float) -> str:
    """What clients will have against a certificate's dates; empty where it is valid now."""
    begin, end = certificate_dates(file)
    if now > end:
        return f"the certificate {file} has expired on {date(end)}"
    return f"the certificate {file} is not valid before {date(begin)}" if now < begin else ""


def date(seconds: float) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(seconds))


def server_context(
    certificate: str,
    key: str = "",
    password: str = "",
    authorities: str = "",
    client_certificates: str = "none",
    version: str = "1.2",
    ciphers: str = "",
) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = VERSIONS[version]
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    context.verify_mode = VERIFICATION[client_certificates]
    try:
        context.set_ciphers(ciphers or CIPHERS)
        # With a password that is never None: OpenSSL would ask for it on the terminal.
        context.load_cert_chain(certificate, key or None, password or "")
        if authorities:
            context.load_verify_locations(authorities)
    except (OSError, ssl.SSLError) as error:
        files = ", ".join(file for file in (certificate, key, authorities) if file)
        why = (
            str(error)
            if key or has_key(certificate)
            else "it has no private key; tls.key names the file of that"
        )
        raise TLSError(f"TLS cannot be set up with {files}: {why}") from None
    return context


def authorities_problem(file: str) -> str:
    """Why a file with certificates to believe cannot be used; empty where it can."""
    try:
        ssl.create_default_context(cafile=file)
    except (OSError, ssl.SSLError) as error:
        return error.strerror or str(error)
    return ""


def has_key(certificate: str) -> bool:
    """Or cannot be read, which is told otherwise."""
    try:
        with open(certificate, "rb") as file:
            return b"PRIVATE KEY-----" in file.read()
    except OSError:
        return True


def certificate_name(certificate: dict[str, Any] | None, kind: str) -> str:
    """What of a certificate names its user; empty where it has no such name, or more than one."""
    if not certificate:
        return ""
    attributes = [pair for part in certificate.get("subject", ()) for pair in part]
    if kind == "distinguished_name":
        return ",".join(f"{SHORT_NAMES.get(name, name)}={value}" for name, value in reversed(attributes))
    if kind == "common_name":
        found = [value for name, value in attributes if name == "commonName"]
    else:
        wanted = ALTERNATIVE_NAMES[kind]
        found = [value for name, value in certificate.get("subjectAltName", ()) if name == wanted]
    return str(found[0]) if len(found) == 1 else ""
