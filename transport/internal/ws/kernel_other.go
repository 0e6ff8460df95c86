//go:build !linux

package ws

import "syscall"

// unsentBytes returns 0, as if the other side had acknowledged everything.
func unsentBytes(syscall.RawConn) int64 { return 0 }

// unread returns nothing, as if nothing had arrived.
func unread(syscall.RawConn, int) (content []byte, ended bool) { return nil, false }
