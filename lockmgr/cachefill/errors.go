package cachefill

import (
	"errors"
	"fmt"
)

var (
	// ErrTimeout says that somebody else was still loading after Options.Wait.
	ErrTimeout = errors.New("still being loaded by another")

	// ErrNotFilled says that somebody else was loading, and is gone without a
	// value: it died, or Redis could not keep what it stored.
	ErrNotFilled = errors.New("whoever loaded it is gone without a value")

	// ErrLoadFailed is an ErrNotFilled of which more is known: a load in another
	// process failed while this one waited for it. The message holds its error's.
	ErrLoadFailed = fmt.Errorf("%w: its load failed", ErrNotFilled)

	// ErrClosed says that the Cache is closed.
	ErrClosed = errors.New("cache is closed")

	// ErrInvalid says that an argument cannot be used. The message names it and
	// nothing was sent to Redis.
	ErrInvalid = errors.New("invalid argument")
)

// PanicError says that the load function did not return: it panicked, or ended its
// goroutine.
type PanicError struct {
	Value any    // what it panicked with, nil if it called runtime.Goexit
	Stack []byte // where
}

func (e *PanicError) Error() string {
	if e.Value == nil {
		return "the load function ended its goroutine"
	}
	return fmt.Sprintf("the load function panicked: %v", e.Value)
}

// Unwrap returns the value of the panic if it was an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
