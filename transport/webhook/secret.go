package webhook

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	"roomd/transport/internal/reload"
)

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
			return nil, fmt.Errorf("line %d is no secret: that is %s and the base64 of %d to %d bytes, as by: echo %[2]s$(openssl rand -base64 32)", number, secretPrefix, minSecret, maxSecret)
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
