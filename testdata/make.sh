#!/bin/sh
# make.sh makes every file under testdata with the tools that users run: OpenSSL 3 and ssh-keygen. All keys are new each
# time and none is used for anything but specs. README.md says what each file is; what a spec can derive from one of them
# by an edit is not stored.
set -eu
cd "$(dirname "$0")"
rm -rf pki accept refuse
mkdir pki accept refuse
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

days=36500 # nothing here expires in the lifetime of the project
cat >"$tmp/ca.ext" <<'EXT'
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
EXT
cat >"$tmp/leaf.ext" <<'EXT'
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth, clientAuth
subjectAltName = DNS:localhost, IP:127.0.0.1
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
EXT

# root NAME SUBJECT: a self-signed authority.
root() {
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "pki/$1.key" -out "pki/$1.crt" \
		-subj "/O=reload specs/CN=$2" -days $days -addext 'keyUsage = critical, keyCertSign, cRLSign' 2>/dev/null
}

# leaf KEY CERT [x509 options]: a certificate of the intermediate for a key that can sign its request.
leaf() {
	key=$1 cert=$2
	shift 2
	openssl req -new -key "$key" -subj '/O=reload specs/CN=leaf' |
		openssl x509 -req -CA pki/intermediate.crt -CAkey pki/intermediate.key -extfile "$tmp/leaf.ext" -days $days "$@" \
			-out "$cert" 2>/dev/null
}

# agree KEY CERT: the same for a key that cannot sign.
agree() {
	openssl pkey -in "$1" -pubout -out "$tmp/public.pem"
	openssl req -new -key pki/leaf.key -subj '/O=reload specs/CN=leaf' |
		openssl x509 -req -CA pki/intermediate.crt -CAkey pki/intermediate.key -extfile "$tmp/leaf.ext" -days $days \
			-force_pubkey "$tmp/public.pem" -out "$2" 2>/dev/null
}

# pki: the authorities, and one leaf with two certificates that share its key.
root root 'root'
root other 'another root'
openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout pki/intermediate.key \
	-subj '/O=reload specs/CN=intermediate' 2>/dev/null |
	openssl x509 -req -CA pki/root.crt -CAkey pki/root.key -extfile "$tmp/ca.ext" -days $days -out pki/intermediate.crt 2>/dev/null
openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out pki/leaf.key
leaf pki/leaf.key pki/leaf.crt
leaf pki/leaf.key pki/renewed.crt

# accept: what issuers leave behind.
cat pki/leaf.crt pki/intermediate.crt >accept/fullchain.pem # certbot
cp pki/leaf.key accept/privkey.pem
cat pki/leaf.crt pki/intermediate.crt pki/root.crt >accept/fullchain3.pem
{ cat pki/leaf.key && echo && cat accept/fullchain.pem; } >accept/tls-combined.pem # cert-manager
{ cat accept/fullchain.pem && cat pki/leaf.key; } >accept/haproxy.pem
openssl dhparam -dsaparam 512 2>/dev/null >>accept/haproxy.pem
openssl x509 -in pki/leaf.crt -text >accept/text.crt
openssl x509 -in pki/intermediate.crt -text >>accept/text.crt
openssl pkey -in pki/leaf.key -text >accept/text.key
openssl pkcs12 -export -in accept/fullchain3.pem -inkey pki/leaf.key -name leaf -passout pass: -out "$tmp/leaf.p12"
openssl pkcs12 -in "$tmp/leaf.p12" -nodes -passin pass: -out accept/pkcs12.pem
{ printf 'subject=O = reload specs\n\n# the other one\n' && cat pki/root.crt pki/other.crt; } >accept/ca.pem

# accept: what a client saw of a server.
mkfifo "$tmp/server"
openssl s_server -www -accept 127.0.0.1:0 -naccept 1 -key pki/leaf.key -cert pki/leaf.crt -cert_chain pki/intermediate.crt \
	</dev/null >"$tmp/server" 2>&1 &
{
	address=
	while read -r word address && [ "$word" != ACCEPT ]; do :; done
	timeout 10 openssl s_client -connect "$address" -servername localhost -showcerts </dev/null >accept/showcerts.txt 2>/dev/null || true
	cat >/dev/null
} <"$tmp/server"
wait

# accept: each algorithm, in each encoding.
for bits in 2048 3072 4096; do
	openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:$bits -out accept/rsa$bits.key 2>/dev/null
	leaf accept/rsa$bits.key accept/rsa$bits.crt
done
openssl rsa -in accept/rsa2048.key -traditional -out accept/rsa2048.pkcs1.key 2>/dev/null
for curve in 384 521; do
	openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-$curve -out accept/p$curve.key
	leaf accept/p$curve.key accept/p$curve.crt
	openssl ec -in accept/p$curve.key -out accept/p$curve.sec1.key 2>/dev/null
done
openssl ecparam -name prime256v1 -genkey -out accept/ecparam.key # EC PARAMETERS, then EC PRIVATE KEY
leaf accept/ecparam.key accept/ecparam.crt
openssl genpkey -algorithm ED25519 -out accept/ed25519.key
leaf accept/ed25519.key accept/ed25519.crt
openssl req -x509 -key pki/leaf.key -subj '/O=reload specs/CN=alone' -days $days -addext 'subjectAltName = DNS:localhost' \
	-out accept/selfsigned.crt
openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out "$tmp/sha1ca.key" 2>/dev/null
openssl req -x509 -key "$tmp/sha1ca.key" -sha1 -subj '/O=reload specs/CN=SHA-1 root' -days $days -out "$tmp/sha1ca.crt"
openssl req -new -key pki/leaf.key -subj '/O=reload specs/CN=leaf' |
	openssl x509 -req -CA "$tmp/sha1ca.crt" -CAkey "$tmp/sha1ca.key" -sha1 -extfile "$tmp/leaf.ext" -days $days \
		-out "$tmp/sha1.crt" 2>/dev/null
cat "$tmp/sha1.crt" "$tmp/sha1ca.crt" >accept/sha1.pem
# A leaf and its authority of one name, without key identifiers: neither is self-signed, though one looks so.
openssl req -x509 -key pki/other.key -subj '/CN=localhost' -days $days -out "$tmp/samename.crt"
openssl req -new -key pki/leaf.key -subj '/CN=localhost' |
	openssl x509 -req -CA "$tmp/samename.crt" -CAkey pki/other.key -days $days -out accept/samename.crt 2>/dev/null

# refuse: keys that are encrypted, or of no use in TLS.
openssl pkcs8 -topk8 -in pki/leaf.key -passout pass:hunter2 -out refuse/encrypted.pkcs8.key
openssl ec -in pki/leaf.key -aes128 -passout pass:hunter2 -out refuse/encrypted.ec.key 2>/dev/null
openssl rsa -in accept/rsa2048.key -traditional -aes128 -passout pass:hunter2 -out refuse/encrypted.rsa.key 2>/dev/null
openssl genpkey -algorithm ED448 -out refuse/ed448.key
leaf refuse/ed448.key refuse/ed448.crt
openssl genpkey -algorithm X25519 -out refuse/x25519.key
agree refuse/x25519.key refuse/x25519.crt
openssl genpkey -algorithm RSA-PSS -pkeyopt rsa_keygen_bits:2048 -out refuse/rsapss.key 2>/dev/null
leaf refuse/rsapss.key refuse/rsapss.crt
for curve in secp256k1 secp224r1; do
	openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:$curve -out refuse/$curve.key
	leaf refuse/$curve.key refuse/$curve.crt
done
openssl ec -in pki/leaf.key -param_enc explicit -out refuse/explicit.key 2>/dev/null
leaf refuse/explicit.key refuse/explicit.crt
for bits in 512 768; do
	openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:$bits -out refuse/rsa$bits.key 2>/dev/null
	leaf refuse/rsa$bits.key refuse/rsa$bits.crt
done
openssl dsaparam -genkey 1024 2>/dev/null | openssl dsa -out refuse/dsa.key 2>/dev/null
openssl pkcs8 -topk8 -nocrypt -in refuse/dsa.key -out refuse/dsa.pkcs8.key
leaf refuse/dsa.key refuse/dsa.crt
cp pki/leaf.key refuse/openssh.key
chmod 600 refuse/openssh.key
ssh-keygen -q -p -N '' -f refuse/openssh.key >/dev/null

# refuse: certificates in wrappings that carry more, or less, than a certificate.
openssl x509 -in pki/leaf.crt -trustout -addtrust serverAuth -out refuse/trusted.crt
openssl crl2pkcs7 -nocrl -certfile accept/fullchain.pem -out refuse/pkcs7.pem

chmod 644 ./*/*.key ./*/*.pem
