// Package reload keeps a value that is made of files, such as a key or a certificate, up to date.
//
// A [Value] reads its files when it is asked for, at most once a second, without a goroutine. Files that cannot be
// used leave the value as it is. A file that is not regular, such as a pipe, is read only once. [ServeTLS] keeps a
// server's certificate up to date; [Pair] and [Authorities] read certificates once.
package reload

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"
)

const (
	// Interval is the shortest time between two checks of the files.
	Interval = time.Second

	// MaxSize is the limit of a file, in bytes.
	MaxSize = 1 << 20
)

// FileError is an error about a file. Its text names the file once.
type FileError struct {
	Path string
	Err  error
}

func (e *FileError) Error() string { return e.Path + ": " + e.Err.Error() }

func (e *FileError) Unwrap() error { return e.Err }

// NewFileError returns a [FileError]. It removes the path that errors of package os repeat.
func NewFileError(path string, err error) *FileError {
	var of *fs.PathError
	if errors.As(err, &of) {
		err = of.Err
	}
	return &FileError{path, err}
}

// Value is a value made of files. It is safe for concurrent use.
type Value[T any] struct {
	paths []string
	parse func(texts [][]byte) (T, error)
	said  Messages
	log   *slog.Logger

	mu      sync.Mutex
	value   T         // guarded by mu: the last usable one
	texts   [][]byte  // guarded by mu: the files' content when all could last be read
	failure string    // guarded by mu: the error of unusable files, as logged; "" if they are usable
	checked time.Time // guarded by mu: when Current last looked at the files
}

// Messages are logged when new files are in force, or are unusable.
type Messages struct{ Changed, Unusable string }

// New returns the value that parse makes of the files' texts, or a [FileError]. It wraps other errors of parse in one
// for the first file. Current logs later errors, each once in a row. parse must not call Current; its calls do not
// overlap.
func New[T any](log *slog.Logger, said Messages, parse func(texts [][]byte) (T, error), paths ...string) (*Value[T],
	error) {
	v := &Value[T]{paths: paths, parse: parse, said: said, log: log, checked: time.Now()}
	if _, err := v.readLocked(); err != nil {
		return nil, err
	}
	return v, nil
}

// Current returns the value of the newest usable files.
func (v *Value[T]) Current() T {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := time.Now()
	if now.Sub(v.checked) < Interval {
		return v.value
	}
	v.checked = now
	switch changed, err := v.readLocked(); {
	case err != nil && err.Error() != v.failure:
		v.failure = err.Error()
		v.log.Error(v.said.Unusable, "error", err)
	case changed:
		v.failure = ""
		v.log.Info(v.said.Changed, "file", v.paths[0])
	}
	return v.value
}

// readLocked reads the files, a pipe only once, and parses them if they changed or were unusable; changed says so.
func (v *Value[T]) readLocked() (changed bool, err error) {
	texts := make([][]byte, len(v.paths))
	for i, path := range v.paths {
		if info, err := os.Stat(path); v.texts != nil && err == nil && !info.Mode().IsRegular() {
			texts[i] = v.texts[i]
		} else if texts[i], err = Read(path); err != nil {
			return false, err
		}
	}
	if v.failure == "" && slices.EqualFunc(texts, v.texts, bytes.Equal) {
		return false, nil
	}
	v.texts = texts
	fresh, err := v.parse(texts)
	if err != nil {
		if !errors.As(err, new(*FileError)) {
			err = NewFileError(v.paths[0], err)
		}
		return false, err
	}
	v.value = fresh
	return true, nil
}

// TrimLine removes a line break at the end of a text: editors add one to a secret.
func TrimLine(text []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimSuffix(text, []byte("\n")), []byte("\r"))
}

// Read returns the content of a file, or a [FileError] if it cannot be read or is longer than [MaxSize].
func Read(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, NewFileError(path, err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, MaxSize+1))
	if err != nil {
		return nil, NewFileError(path, err)
	}
	if len(text) > MaxSize {
		return nil, NewFileError(path, fmt.Errorf("longer than %d MiB", MaxSize>>20))
	}
	return text, nil
}
