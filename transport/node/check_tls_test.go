package node

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"testing"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/lockmgr/redistest/certs"
)

// Whether others will accept the certificates of a node, today and soon, is told.
func TestCheck_Certificates(t *testing.T) {
	t.Parallel()
	authority := certs.New(t)
	pair := func(left time.Duration) []string {
		cert, key := authority.IssueUntil("localhost", time.Now().Add(left))
		return []string{"--tls-cert", cert, "--tls-key", key}
	}
	for _, tt := range []struct {
		what        string
		flags       []string
		level, text string
	}{
		{"a good one", pair(110 * time.Minute), levelOK, "--tls-cert expires at 20"},
		{"one that expires soon", pair(10 * time.Minute), levelWarn, "--tls-cert expires soon, at 20"},
		{"an expired one", pair(-time.Minute), levelFail, "--tls-cert expired at 20"},
		{"one of tomorrow", pair(24 * time.Hour), levelFail, "--tls-cert is not valid before 20"},
		{"the key of another", []string{"--tls-cert", pair(time.Hour)[1], "--tls-key", pair(time.Hour)[3]}, levelFail, "--tls-key: "},
	} {
		code := 0
		if tt.level == levelFail {
			code = exitFailed
		}
		t.Run(tt.what, func(t *testing.T) { wantLine(t, check(t, code, tt.flags...), tt.level, "tls", tt.text) })
	}
	cert, key := authority.IssueUntil("node", time.Now().Add(-time.Minute))
	wantLine(t, check(t, exitFailed, "--redis", "rediss://127.0.0.1:1", "--redis-cert", cert, "--redis-key", key), levelFail, "tls", "Redis will refuse it")
}

// A certificate that names its host only as its subject, as old scripts make them, is accepted by no client.
func TestCheck_CertificateWithoutNames(t *testing.T) {
	t.Parallel()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	redistest.OK(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"}, NotAfter: time.Now().Add(time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	redistest.OK(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	redistest.OK(t, err)
	file := func(kind string, der []byte) string {
		return writeFile(t, string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})))
	}
	lines := check(t, exitFailed, "--tls-cert", file("CERTIFICATE", cert), "--tls-key", file("PRIVATE KEY", private))
	wantLine(t, lines, levelFail, "tls", "subjectAltName")
}

// A check asks Redis with the same password files as a node.
func TestCheck_PasswordFile(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--requirepass", "hidden")
	wantLine(t, check(t, 0, "--redis", "redis://"+server.Addr(), "--redis-password-file", writeFile(t, "hidden\n")), levelOK, "rights", "all that a node does")
}
