//go:build !linux

package ws

import (
	"io"
	"syscall"
)

// rawOf returns nil: every read waits with a buffer, and every write in a goroutine.
func rawOf(io.Reader) syscall.RawConn { return nil }

func readSocket(uintptr, []byte) (int, error) { panic("not called without a RawConn") }

func writeSocket(uintptr, []byte) (int, error) { panic("not called without a RawConn") }

// unsentBytes returns 0, as if the other side had acknowledged everything.
func unsentBytes(syscall.RawConn) int64 { return 0 }

// unread returns nothing, as if nothing had arrived.
func unread(syscall.RawConn, int) (content []byte, ended bool) { return nil, false }
