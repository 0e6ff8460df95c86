// Package certfile reads the certificates of TLS from PEM files.
//
// [Pool] reads the authorities that a client trusts, [Pair] a certificate with its private key, and
// [Serve] such a pair for a server, which goes on with a newer pair when the files change. Errors
// are a [reload.FileError], in one line that shows nothing of a key.
package certfile

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"roomd/transport/reload"
)

// Pool returns the authorities whose certificates are in a file.
func Pool(path string) (*x509.CertPool, error) {
	text, err := reload.Read(path)
	if err != nil {
		return nil, err
	}
	certs, err := parseCertificates(text)
	if err != nil {
		return nil, reload.NewFileError(path, err)
	}
	pool := x509.NewCertPool()
	for _, cert := range certs {
		pool.AddCert(cert)
	}
	return pool, nil
}

// Pair returns the certificate in one file, with the intermediate ones behind it, and its private
// key in another, or in the same.
func Pair(certPath, keyPath string) (*tls.Certificate, error) {
	cert, err := reload.Read(certPath)
	if err != nil {
		return nil, err
	}
	key, err := reload.Read(keyPath)
	if err != nil {
		return nil, err
	}
	return parsePair(certPath, keyPath, cert, key)
}

// Serve returns the configuration of a server with that pair: TLS 1.2 or later, and HTTP/1.1. When
// the files change, new connections get the new pair, at most [reload.Interval] later; the others
// stay. While the new files cannot be used, or do not belong to each other, the old pair counts, and
// log says so.
func Serve(certPath, keyPath string, log *slog.Logger) (*tls.Config, error) {
	parse := func(texts [][]byte) (*tls.Certificate, error) {
		return parsePair(certPath, keyPath, texts[0], texts[1])
	}
	report := func(fresh *tls.Certificate, err error) {
		if err != nil {
			log.Error("the new TLS certificate cannot be used, the old one counts", "error", err)
			return
		}
		log.Info("the TLS certificate has changed, the new one counts", "file", certPath, "expires", fresh.Leaf.NotAfter)
		warnOfTime(fresh, certPath, log)
	}
	pair, err := reload.New(parse, report, certPath, keyPath)
	if err != nil {
		return nil, err
	}
	warnOfTime(pair.Current(), certPath, log)
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"http/1.1"}, // WebSocket needs it
		// A message is of use only as a whole: small records would be more system calls.
		DynamicRecordSizingDisabled: true,

		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return pair.Current(), nil },
	}, nil
}

// warnOfTime logs if clients will refuse a certificate today.
func warnOfTime(pair *tls.Certificate, path string, log *slog.Logger) {
	switch now := time.Now(); {
	case now.After(pair.Leaf.NotAfter):
		log.Warn("the TLS certificate has expired, clients will refuse it", "file", path, "expired", pair.Leaf.NotAfter)
	case now.Before(pair.Leaf.NotBefore):
		log.Warn("the TLS certificate is not valid yet, clients will refuse it", "file", path, "valid from", pair.Leaf.NotBefore)
	}
}

func parsePair(certPath, keyPath string, cert, key []byte) (*tls.Certificate, error) {
	if _, err := parseCertificates(cert); err != nil {
		return nil, reload.NewFileError(certPath, err)
	}
	if err := findKey(key); err != nil {
		return nil, reload.NewFileError(keyPath, err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		text := strings.TrimPrefix(err.Error(), "tls: ")
		return nil, reload.NewFileError(keyPath, fmt.Errorf("does not go with %s: %s", certPath, text))
	}
	return &pair, nil
}

// parseCertificates returns the certificates in a PEM file, at least one.
func parseCertificates(text []byte) (certs []*x509.Certificate, err error) {
	kind := ""
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if kind = block.Type; kind != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d: %w", len(certs)+1, err)
		}
		certs = append(certs, cert)
	}
	if len(certs) == 0 {
		return nil, absent("certificate", kind, text)
	}
	return certs, nil
}

// findKey returns an error that says why there is no private key in a PEM file.
func findKey(text []byte) error {
	kind := ""
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		kind = block.Type
		switch {
		case kind == "ENCRYPTED PRIVATE KEY", strings.HasSuffix(kind, "PRIVATE KEY") && block.Headers["DEK-Info"] != "":
			return errors.New("the private key is encrypted; a node cannot ask for the passphrase")
		case strings.HasSuffix(kind, "PRIVATE KEY"):
			return nil
		}
	}
	return absent("private key", kind, text)
}

// absent says that a file has no PEM block of what was looked for, but perhaps another kind.
func absent(what, kind string, text []byte) error {
	switch {
	case len(bytes.TrimSpace(text)) == 0:
		return errors.New("the file is empty")
	case kind == "":
		return errors.New("not a PEM file")
	}
	return fmt.Errorf("no %s in it, but a %s", what, strings.ToLower(kind))
}
