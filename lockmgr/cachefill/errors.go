package cachefill

import (
	"errors"
	"fmt"
)

var (
	// ErrTimeout says that somebody else was still loading after Options.Wait.
	ErrTimeout = errors.New("still being loaded by another")

	// ErrLoadFailed says that another process failed to load the value while this one
	// waited for it. The message contains that of the error there.
	ErrLoadFailed = errors.New("its load failed in another process")

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
	Stack []byte // of the goroutine that panicked
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
