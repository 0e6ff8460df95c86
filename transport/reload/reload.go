// Package reload keeps a value that is made of files up to date, such as a key or a certificate.
//
// A [Value] looks at its files when somebody asks for it, at most once a second, and reads them
// again when they have changed. It runs no goroutine. Files that cannot be used leave the value as
// it is. A file that is no regular one, such as a pipe, is read once.
package reload

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"
)

const (
	// Interval is the shortest time between two looks at the files.
	Interval = time.Second

	// MaxSize is the length of the longest file that is read, in bytes.
	MaxSize = 1 << 20
)

// FileError says what is wrong with a file. Its text names the file once.
type FileError struct {
	Path string
	Err  error
}

func (e *FileError) Error() string { return e.Path + ": " + e.Err.Error() }

func (e *FileError) Unwrap() error { return e.Err }

// NewFileError returns a [FileError]. Of an error of package os it takes the reason only.
func NewFileError(path string, err error) *FileError {
	var of *fs.PathError
	if errors.As(err, &of) {
		err = of.Err
	}
	return &FileError{path, err}
}

// Value is made of files. It is safe for concurrent use.
type Value[T any] struct {
	paths  []string
	parse  func(texts [][]byte) (T, error)
	report func(fresh T, err error)

	mu      sync.Mutex
	value   T         // guarded by mu: the last that could be used
	seen    []state   // guarded by mu: of the files when they were last read, also in vain
	failure string    // guarded by mu: why the files cannot be used, as reported; "" if they can
	unread  bool      // guarded by mu: a file could not be read, so it may be readable without having changed
	checked time.Time // guarded by mu: when the files were last looked at
}

// state tells two contents of a file apart.
type state struct {
	modified time.Time
	size     int64
	missing  bool
	info     os.FileInfo // nil if it is missing, or no regular file
}

// equals reports whether nothing tells two states apart, not even that the file was replaced by
// one of the same size and time.
func (s state) equals(other state) bool {
	if (s.info == nil) != (other.info == nil) || s.info != nil && !os.SameFile(s.info, other.info) {
		return false
	}
	return s.modified.Equal(other.modified) && s.size == other.size && s.missing == other.missing
}

// New returns the value that parse makes of the texts of the files, or a [FileError], or the error
// of parse. When the files have changed it calls report, with the new value or with why there is
// none; the same reason is reported once. parse and report run one at a time, and must not call
// Current.
func New[T any](parse func(texts [][]byte) (T, error), report func(fresh T, err error), paths ...string) (*Value[T], error) {
	v := &Value[T]{paths: paths, parse: parse, report: report, checked: time.Now()}
	v.seen = v.look()
	texts, err := v.read()
	if err == nil {
		v.value, err = parse(texts)
	}
	if err != nil {
		return nil, err
	}
	return v, nil
}

// Current returns the value that counts now.
func (v *Value[T]) Current() T {
	v.mu.Lock()
	defer v.mu.Unlock()
	if now := time.Now(); now.Sub(v.checked) >= Interval {
		v.checked = now
		v.reloadLocked()
	}
	return v.value
}

func (v *Value[T]) reloadLocked() {
	seen := v.look()
	if slices.EqualFunc(seen, v.seen, state.equals) && !v.unread {
		return
	}
	v.seen = seen
	var fresh T
	texts, err := v.read()
	if v.unread = err != nil; err == nil {
		fresh, err = v.parse(texts)
	}
	if err != nil {
		if reason := err.Error(); reason != v.failure {
			v.failure = reason
			v.report(fresh, err)
		}
		return
	}
	v.value, v.failure = fresh, ""
	v.report(fresh, nil)
}

// look returns the states of the files.
func (v *Value[T]) look() []state {
	seen := make([]state, len(v.paths))
	for i, path := range v.paths {
		switch info, err := os.Stat(path); {
		case err != nil:
			seen[i] = state{missing: true}
		case info.Mode().IsRegular():
			seen[i] = state{modified: info.ModTime(), size: info.Size(), info: info}
		}
	}
	return seen
}

func (v *Value[T]) read() ([][]byte, error) {
	texts := make([][]byte, len(v.paths))
	for i, path := range v.paths {
		var err error
		if texts[i], err = Read(path); err != nil {
			return nil, err
		}
	}
	return texts, nil
}

// TrimLine removes a line break at the end of a text, which editors write behind a secret.
func TrimLine(text []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimSuffix(text, []byte("\n")), []byte("\r"))
}

// Read returns the content of a file, or a [FileError] if that cannot be read or is longer than
// [MaxSize].
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
