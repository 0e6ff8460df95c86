package reload

import (
	"bytes"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/lockmgr/redistest/certs"
)

// pemFile returns the path of a new file with that text.
func pemFile(t *testing.T, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "file.pem")
	write(t, path, text)
	return path
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	redistest.OK(t, err)
	return string(text)
}

// A file that cannot be used is an error in one line, which names the file that is wrong.
func TestUnusableFiles(t *testing.T) {
	authority := certs.New(t)
	cert, key := authority.Issue("a")
	otherCert, otherKey := authority.Issue("b")
	empty, text, missing := pemFile(t, "\n"), pemFile(t, "hello"), filepath.Join(t.TempDir(), "missing")
	legacy := pemFile(t, "-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nAAAA\n-----END EC PRIVATE KEY-----\n")
	for _, tt := range []struct{ cert, key, wrong, want string }{
		{missing, key, missing, "no such file"},
		{cert, missing, missing, "no such file"},
		{t.TempDir(), key, "", "is a directory"},
		{empty, key, empty, "failed to find any PEM data"},
		{cert, empty, empty, "failed to find any PEM data"},
		{key, cert, key, "but did find a private key"},
		{cert, cert, cert, "found a certificate rather than a key"},
		{cert, pemFile(t, block("ENCRYPTED PRIVATE KEY")), "", "encrypted"},
		{cert, legacy, legacy, "encrypted"},
		{pemFile(t, block("CERTIFICATE")), key, "", "x509"},
		{cert, pemFile(t, block("PRIVATE KEY")), "", "failed to parse private key"},
		{cert, otherKey, otherKey, "does not go with " + cert + ": private key does not match public key"},
		{otherCert, key, key, "does not go with " + otherCert},
		{pemFile(t, strings.Repeat("x", MaxSize+1)), key, "", "1 MiB"},
	} {
		_, err := Pair(tt.cert, tt.key)
		_, serveErr := ServeTLS(tt.cert, tt.key, slog.New(slog.DiscardHandler))
		var of *FileError
		if !errors.As(err, &of) || tt.wrong != "" && of.Path != tt.wrong || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") || serveErr == nil || serveErr.Error() != err.Error() {
			t.Errorf("%v; %v; want %s: %s", err, serveErr, tt.wrong, tt.want)
		}
	}
	for path, want := range map[string]string{missing: "no such file", empty: "no certificate", text: "no certificate", key: "no certificate"} {
		if _, err := Authorities(path); err == nil || !strings.HasPrefix(err.Error(), path+": ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s: %s", err, path, want)
		}
	}
	both := pemFile(t, read(t, key)+read(t, cert))
	if _, err := Pair(both, both); err != nil {
		t.Errorf("both in one file: %v", err)
	}
	if pool, err := Authorities(authority.File); err != nil || !pool.Equal(authority.Pool) {
		t.Errorf("the authority: %v", err)
	}
}

func block(kind string) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: []byte("nonsense")}))
}

// shake connects a client and a server with that configuration. It returns the name in the server's
// certificate, and the two ends.
func shake(t *testing.T, server *tls.Config, client *tls.Config) (name string, near, far *tls.Conn, err error) {
	t.Helper()
	a, b := net.Pipe()
	near, far = tls.Client(a, client), tls.Server(b, server)
	t.Cleanup(func() { a.Close(); b.Close() })
	done := make(chan error, 1)
	go func() { done <- far.Handshake() }()
	if err = near.Handshake(); err != nil {
		a.Close()
	}
	if serverErr := <-done; err == nil {
		err = serverErr
	}
	if err != nil {
		return "", nil, nil, err
	}
	return near.ConnectionState().PeerCertificates[0].Subject.CommonName, near, far, nil
}

// A pair that is replaced, one file after the other, serves new connections a second later. The old
// connections go on, and the log has one line for what cannot be used.
func TestPairIsReplaced(t *testing.T) {
	authority := certs.New(t)
	cert, key := authority.Issue("old")
	newCert, newKey := authority.Issue("new")
	strange, _ := certs.New(t).Issue("strange")
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		server, err := ServeTLS(cert, key, slog.New(slog.NewTextHandler(&log, nil)))
		redistest.OK(t, err)
		now := func() time.Time { return time.Unix(0, 0) }
		client := &tls.Config{InsecureSkipVerify: true, Time: now} // the clock of the bubble is another
		want := func(step, want string) {
			t.Helper()
			for range 3 {
				time.Sleep(Interval)
				if name, _, _, err := shake(t, server, client); err != nil || name != want {
					t.Errorf("%s: %q, %v, want %q", step, name, err, want)
				}
			}
		}
		logged := func(step, what string, times int) {
			t.Helper()
			if n := strings.Count(log.String(), what); n != times {
				t.Errorf("%s: %d times %q in the log:\n%s", step, n, what, &log)
			}
		}
		_, near, far, err := shake(t, server, client)
		redistest.OK(t, err)
		copyTo(t, newCert, cert)
		want("half replaced", "old")
		logged("half replaced", "the old one counts", 1)
		copyTo(t, newKey, key)
		want("replaced", "new")
		logged("replaced", "the new one counts", 1)
		copyTo(t, strange, cert)
		want("of another key", "new")
		_ = os.Remove(cert)
		want("missing", "new")
		logged("in the end", "level=ERROR", 3)
		logged("in the end", "PRIVATE", 0)
		go func() { _, _ = far.Write([]byte("x")) }()
		if _, err := io.ReadFull(near, make([]byte, 1)); err != nil {
			t.Errorf("the old connection: %v", err)
		}
	})
}

func copyTo(t *testing.T, from, to string) {
	t.Helper()
	redistest.OK(t, os.WriteFile(to, []byte(read(t, from)), 0o600))
}

// A server speaks TLS 1.2 at least, and HTTP/1.1 whatever else the client offers.
func TestVersions(t *testing.T) {
	authority := certs.New(t)
	cert, key := authority.Issue("a")
	server, err := ServeTLS(cert, key, slog.New(slog.DiscardHandler))
	redistest.OK(t, err)
	for version, ok := range map[uint16]bool{tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
		client := &tls.Config{RootCAs: authority.Pool, ServerName: "localhost", MinVersion: version, MaxVersion: version, NextProtos: []string{"h2", "http/1.1"}}
		_, near, _, err := shake(t, server, client)
		redistest.ErrorIf(t, (err == nil) != ok || ok && near.ConnectionState().NegotiatedProtocol != "http/1.1",
			"%s: %v", tls.VersionName(version), err)
	}
}

// A certificate that has expired, or is not valid yet, is used, and the log says so.
func TestTimeOfACertificate(t *testing.T) {
	authority := certs.New(t)
	for end, want := range map[time.Duration]string{-time.Minute: "has expired", time.Hour: "", 5 * time.Hour: "not valid yet"} {
		cert, key := authority.IssueUntil("a", time.Now().Add(end))
		var log bytes.Buffer
		if _, err := ServeTLS(cert, key, slog.New(slog.NewTextHandler(&log, nil))); err != nil || !strings.Contains(log.String(), want) || (want == "") != (log.Len() == 0) {
			t.Errorf("%v: %v, %s", end, err, &log)
		}
	}
}
