package auth

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"
)

// KeySource says where the key is that verifies tokens. The zero value is none.
type KeySource struct {
	path  string // of a file; "" for a key that never changes
	text  []byte
	parse func(text []byte) (*keys, error)
}

// Secret is the key for HS256, at least 32 bytes long.
func Secret(secret string) KeySource { return KeySource{text: []byte(secret), parse: parseSecret} }

// SecretFile names a file whose content is the key for HS256. A line break at its end does not
// count.
func SecretFile(path string) KeySource {
	return KeySource{path: path, parse: func(text []byte) (*keys, error) { return parseSecret(trimLine(text)) }}
}

// PublicKeyFile names a PEM file with one public key or certificate. An RSA key verifies RS256, one
// of the curve P-256 ES256, one of Ed25519 EdDSA.
func PublicKeyFile(path string) KeySource { return KeySource{path: path, parse: parsePublicKey} }

// JWKSFile names a file with a JSON Web Key Set. A token names one of the keys by its kid; it need
// not if there is only one.
func JWKSFile(path string) KeySource { return KeySource{path: path, parse: parseJWKS} }

func trimLine(text []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimSuffix(text, []byte("\n")), []byte("\r"))
}

const (
	// checkInterval is the shortest time between two looks at a key file.
	checkInterval = time.Second

	maxKeyFile = 1 << 20 // bytes
)

// keyring has the keys of a source, and reads them again when its file changes.
type keyring struct {
	source KeySource
	log    *slog.Logger

	mu      sync.Mutex
	keys    *keys     // guarded by mu: the last that could be used
	read    fileState // guarded by mu: of the file when it was last read, also in vain
	checked time.Time // guarded by mu: when the file was last looked at
}

// fileState tells two contents of a file apart.
type fileState struct {
	modified time.Time
	size     int64
	missing  bool
}

func newKeyring(source KeySource, log *slog.Logger) (*keyring, error) {
	if source.parse == nil {
		return nil, errors.New("no key is given")
	}
	r := &keyring{source: source, log: log, checked: time.Now()}
	var err error
	if source.path == "" {
		r.keys, err = source.parse(source.text)
		return r, err
	}
	if r.read, err = r.stat(); err != nil {
		return nil, err
	}
	r.keys, err = r.load()
	return r, err
}

// current returns the keys that count now.
func (r *keyring) current() *keys {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := time.Now(); r.source.path != "" && now.Sub(r.checked) >= checkInterval {
		r.checked = now
		r.reloadLocked()
	}
	return r.keys
}

// reloadLocked reads the file if it has changed. Each content is tried, and logged, once.
func (r *keyring) reloadLocked() {
	state, err := r.stat()
	if state == r.read {
		return
	}
	r.read = state
	var fresh *keys
	if err == nil {
		fresh, err = r.load()
	}
	if err != nil {
		r.log.Error("the new key file cannot be used, the old keys count", "error", err)
		return
	}
	r.keys = fresh
	r.log.Info("the key file has changed, its new keys count", "file", r.source.path)
}

func (r *keyring) stat() (fileState, error) {
	info, err := os.Stat(r.source.path)
	if err != nil {
		return fileState{missing: true}, fileError(r.source.path, err)
	}
	return fileState{modified: info.ModTime(), size: info.Size()}, nil
}

func (r *keyring) load() (*keys, error) {
	file, err := os.Open(r.source.path)
	if err != nil {
		return nil, fileError(r.source.path, err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxKeyFile+1))
	if err != nil {
		return nil, fileError(r.source.path, err)
	}
	if len(text) > maxKeyFile {
		return nil, fileError(r.source.path, errors.New("longer than 1 MiB"))
	}
	loaded, err := r.source.parse(text)
	if err != nil {
		return nil, fileError(r.source.path, err)
	}
	return loaded, nil
}

// fileError names the file once, and says what is wrong with it.
func fileError(path string, err error) error {
	var of *fs.PathError
	if errors.As(err, &of) {
		err = of.Err
	}
	return fmt.Errorf("%s: %w", path, err)
}
