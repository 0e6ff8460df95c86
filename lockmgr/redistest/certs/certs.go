// Package certs makes certificates for tests, in files that are removed after the test.
package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority issues certificates. Its methods are for the goroutine of the test.
type Authority struct {
	// File and Pool have the authority's own certificate.
	File string
	Pool *x509.CertPool

	tb   testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// New returns a new authority.
func New(tb testing.TB) *Authority {
	tb.Helper()
	a := &Authority{tb: tb, Pool: x509.NewCertPool(), File: filepath.Join(tb.TempDir(), "ca.pem")}
	template := a.template("an authority for tests", time.Now().Add(time.Hour))
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	a.key = a.newKey()
	a.cert = a.sign(template, template, a.key, a.key)
	a.Pool.AddCert(a.cert)
	a.write(a.File, "CERTIFICATE", a.cert.Raw)
	return a
}

// Issue returns the files of a new certificate for this machine, and of its private key. The
// certificate is for servers and clients, and has that common name.
func (a *Authority) Issue(name string) (certFile, keyFile string) {
	a.tb.Helper()
	return a.IssueUntil(name, time.Now().Add(time.Hour))
}

// IssueUntil is like Issue, for a certificate that expires at end.
func (a *Authority) IssueUntil(name string, end time.Time) (certFile, keyFile string) {
	a.tb.Helper()
	dir := a.tb.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	template := a.template(name, end)
	template.DNSNames = []string{"localhost"}
	template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	key := a.newKey()
	a.write(certFile, "CERTIFICATE", a.sign(template, a.cert, key, a.key).Raw)
	a.write(keyFile, "PRIVATE KEY", must(x509.MarshalPKCS8PrivateKey(key))(a.tb))
	return certFile, keyFile
}

// must takes the results of a call, and returns a function that returns the value, or ends the test with err.
func must[T any](value T, err error) func(testing.TB) T {
	return func(tb testing.TB) T {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
		return value
	}
}

func (a *Authority) template(name string, end time.Time) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: must(rand.Int(rand.Reader, big.NewInt(1<<62)))(a.tb), Subject: pkix.Name{CommonName: name},
		NotBefore: end.Add(-2 * time.Hour), NotAfter: end,
	}
}

func (a *Authority) newKey() *ecdsa.PrivateKey {
	return must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(a.tb)
}

func (a *Authority) sign(template, parent *x509.Certificate, subject, issuer *ecdsa.PrivateKey) *x509.Certificate {
	der := must(x509.CreateCertificate(rand.Reader, template, parent, subject.Public(), issuer))(a.tb)
	return must(x509.ParseCertificate(der))(a.tb)
}

func (a *Authority) write(path, kind string, der []byte) {
	must(0, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))(a.tb)
}
