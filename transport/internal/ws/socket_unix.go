//go:build unix

package ws

import (
	"io"
	"syscall"
)

// rawOf returns the means to read a socket without waiting, or nil.
func rawOf(conn io.Reader) syscall.RawConn {
	if c, ok := conn.(syscall.Conn); ok {
		if raw, err := c.SyscallConn(); err == nil {
			return raw
		}
	}
	return nil
}

func readSocket(fd uintptr, p []byte) (int, error) { return syscall.Read(int(fd), p) }

func writeSocket(fd uintptr, p []byte) (int, error) { return syscall.Write(int(fd), p) }
