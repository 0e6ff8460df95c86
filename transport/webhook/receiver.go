package webhook

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strconv"
	"strings"

	"roomd/transport/api"
	"roomd/transport/internal/reload"
)

// Receiver is a URL, and a filter for the commits sent to it.
type Receiver struct {
	URL    string
	Filter api.FeedFilter
}

// ParseReceiver reads a URL of http or https. A filter may follow after #: rooms=table-*,cup-* and kinds=join,leave,
// joined by &. The errors do not repeat the URL, which may contain a secret.
func ParseReceiver(text string) (r Receiver, err error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return r, errors.New("is no URL")
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Opaque != "":
		return r, errors.New("must be a URL such as https://game.example/roomd")
	case u.User != nil:
		return r, errors.New("must have no user and password; the receiver checks the signature")
	}
	wants, err := url.ParseQuery(u.EscapedFragment())
	if err != nil {
		return r, errors.New("has something behind # that cannot be read; rooms=table-*&kinds=join,leave would do")
	}
	for name, values := range wants {
		list := strings.Split(strings.Join(values, ","), ",")
		switch name {
		case "rooms":
			r.Filter.Rooms = list
		case "kinds":
			r.Filter.Kinds = list
		default:
			return r, fmt.Errorf("has %.20q behind #; there may be rooms and kinds", name)
		}
	}
	if err := r.Filter.Check(); err != nil {
		return r, fmt.Errorf("has something behind # that cannot be used: %w", err)
	}
	u.Fragment, u.RawFragment = "", ""
	r.URL = u.String()
	return r, nil
}

// Host names the receiver in logs and metrics: without path and query, which may contain a secret.
func (r Receiver) Host() string {
	u, err := url.Parse(r.URL)
	if err != nil {
		return "?"
	}
	return u.Scheme + "://" + u.Host
}

// name names the receiver's place in Redis. It does not depend on the filter, which may change.
func (r Receiver) name() string {
	sum := sha256.Sum256([]byte(r.URL))
	return hex.EncodeToString(sum[:12])
}

// Check fails if two receivers have the same URL.
func Check(receivers []Receiver) error {
	known := make(map[string]bool, len(receivers))
	for _, r := range receivers {
		if known[r.URL] {
			return fmt.Errorf("the same receiver at %s is there twice; one URL is one receiver, whatever stands "+
				"behind #", r.Host())
		}
		known[r.URL] = true
	}
	return nil
}

// secretPrefix starts a secret; minSecret and maxSecret limit its length in bytes.
const (
	secretPrefix = "whsec_"
	minSecret    = 24
	maxSecret    = 64
)

// Secrets sign messages. A receiver that knows one of the secrets can verify them.
type Secrets struct{ file *reload.Value[[][]byte] }

// SecretFile reads secrets from a file with one per line, such as whsec_ and 32 bytes in base64. It reads them again
// when the file changes. It fails with a [reload.FileError].
func SecretFile(path string, log *slog.Logger) (*Secrets, error) {
	said := reload.Messages{Changed: "the webhook secrets have changed, the new ones count",
		Unusable: "the new webhook secrets cannot be used, the old ones count"}
	file, err := reload.New(log, said, func(texts [][]byte) ([][]byte, error) { return parseSecrets(texts[0]) }, path)
	if err != nil {
		return nil, err
	}
	return &Secrets{file}, nil
}

func parseSecrets(text []byte) (secrets [][]byte, err error) {
	number := 0
	for line := range bytes.Lines(text) {
		number++
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		encoded, found := bytes.CutPrefix(line, []byte(secretPrefix))
		secret, err := base64.StdEncoding.AppendDecode(nil, encoded)
		if !found || err != nil || len(secret) < minSecret || len(secret) > maxSecret {
			return nil, fmt.Errorf("line %d is no secret: that is %s and the base64 of %d to %d bytes, as by: "+
				"echo %[2]s$(openssl rand -base64 32)", number, secretPrefix, minSecret, maxSecret)
		}
		secrets = append(secrets, secret)
	}
	if len(secrets) == 0 {
		return nil, errors.New("it has no secret")
	}
	return secrets, nil
}

func (s *Secrets) sign(id string, at int64, body []byte) string {
	var signatures []string
	for _, secret := range s.file.Current() {
		sum := hmac.New(sha256.New, secret)
		_, _ = sum.Write([]byte(id + "." + strconv.FormatInt(at, 10) + "."))
		_, _ = sum.Write(body)
		signatures = append(signatures, "v1,"+base64.StdEncoding.EncodeToString(sum.Sum(nil)))
	}
	return strings.Join(signatures, " ")
}
