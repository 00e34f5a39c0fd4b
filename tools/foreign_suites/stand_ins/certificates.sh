#!/usr/bin/env bash
# A certificate authority, a server and a client in the folder $1, for suites that ship none.
set -euo pipefail
mkdir -p "$1"
cd "$1"
openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=foreign-suites \
    -addext basicConstraints=critical,CA:true -addext keyUsage=keyCertSign,cRLSign \
    -keyout ca_key.pem -out ca_certificate.pem 2>/dev/null
for who in server client; do
    openssl req -newkey rsa:2048 -nodes -subj "/CN=localhost" -keyout ${who}_key.pem -out $who.csr 2>/dev/null
    openssl x509 -req -in $who.csr -CA ca_certificate.pem -CAkey ca_key.pem -CAcreateserial -days 30 \
        -extfile <(printf 'subjectAltName=DNS:localhost,IP:127.0.0.1\nextendedKeyUsage=%sAuth\n' $who) \
        -out ${who}_certificate.pem 2>/dev/null
done
