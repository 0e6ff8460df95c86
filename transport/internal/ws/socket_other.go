//go:build !unix

package ws

import (
	"io"
	"syscall"
)

func rawOf(io.Reader) syscall.RawConn { return nil }

func readSocket(uintptr, []byte) (int, error) { panic("not called without a RawConn") }

func writeSocket(uintptr, []byte) (int, error) { panic("not called without a RawConn") }
