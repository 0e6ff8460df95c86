package reload

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
)

// Authorities returns the pool of the certificates in a PEM file, or a [FileError].
func Authorities(path string) (*x509.CertPool, error) {
	text, err := Read(path)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, NewFileError(path, errors.New("no certificate in it"))
	}
	return pool, nil
}

// Pair returns the certificate in the PEM file cert, where intermediate ones follow it, with the private key in the
// file key, which may be the same. It fails with a [FileError], which shows nothing of the key.
func Pair(cert, key string) (*tls.Certificate, error) {
	pair, err := New(nil, Messages{}, parsePair(cert, key), cert, key)
	if err != nil {
		return nil, err
	}
	return pair.value, nil
}

// ServeTLS returns a server's configuration with a [Pair], for TLS 1.2 or later, and HTTP/1.1. It fails as Pair. When
// the files change, connections get the new pair after at most [Interval]; an unusable one is only logged.
func ServeTLS(cert, key string, log *slog.Logger) (*tls.Config, error) {
	read := parsePair(cert, key)
	parse := func(texts [][]byte) (*tls.Certificate, error) {
		pair, err := read(texts)
		if err != nil {
			return nil, err
		}
		switch now := time.Now(); {
		case now.After(pair.Leaf.NotAfter):
			log.Warn("the TLS certificate has expired, clients will refuse it", "file", cert, "expired",
				pair.Leaf.NotAfter)
		case now.Before(pair.Leaf.NotBefore):
			log.Warn("the TLS certificate is not valid yet, clients will refuse it", "file", cert, "valid from",
				pair.Leaf.NotBefore)
		}
		return pair, nil
	}
	said := Messages{Changed: "the TLS certificate has changed, the new one counts",
		Unusable: "the new TLS certificate cannot be used, the old one counts"}
	pair, err := New(log, said, parse, cert, key)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"http/1.1"}, // WebSocket needs it
		// A message is useful only as a whole: small records would be more system calls.
		DynamicRecordSizingDisabled: true,

		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return pair.Current(), nil },
	}, nil
}

// parsePair returns a function that parses the texts of the two files.
func parsePair(cert, key string) func(texts [][]byte) (*tls.Certificate, error) {
	return func(texts [][]byte) (*tls.Certificate, error) {
		pair, err := tls.X509KeyPair(texts[0], texts[1])
		if err == nil {
			return &pair, nil
		}
		why := strings.TrimPrefix(err.Error(), "tls: ")
		switch {
		case strings.Contains(why, "certificate input"), strings.HasPrefix(why, "x509: "):
			return nil, NewFileError(cert, errors.New(why))
		case bytes.Contains(texts[1], []byte("ENCRYPTED")):
			why = "the private key is encrypted; a node cannot ask for the passphrase"
		case strings.Contains(why, "match"):
			why = fmt.Sprintf("does not go with %s: %s", cert, why)
		}
		return nil, NewFileError(key, errors.New(why))
	}
}
