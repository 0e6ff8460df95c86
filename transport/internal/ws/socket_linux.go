package ws

import (
	"io"
	"syscall"

	"golang.org/x/sys/unix"
)

// rawOf returns the means to read and write a socket without waiting, or nil.
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

// unsentBytes returns how many bytes of a socket's send queue the other side has not acknowledged.
func unsentBytes(socket syscall.RawConn) int64 {
	if socket == nil {
		return 0
	}
	n := 0
	_ = socket.Control(func(fd uintptr) { n, _ = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ) })
	return int64(n)
}

// unread returns up to max bytes that have arrived, and leaves them there; none if the other side has ended.
func unread(socket syscall.RawConn, max int) (content []byte, ended bool) {
	if socket == nil {
		return nil, false
	}
	p := &peek{max: max}
	_ = socket.Control(p.look)
	return p.content, p.ended
}

type peek struct {
	max     int
	state   [1]unix.PollFd
	content []byte
	ended   bool
}

func (p *peek) look(fd uintptr) {
	p.state[0] = unix.PollFd{Fd: int32(fd), Events: unix.POLLIN | unix.POLLRDHUP}
	if n, err := unix.Poll(p.state[:], 0); n == 0 || err != nil {
		return
	}
	if p.ended = p.state[0].Revents&(unix.POLLRDHUP|unix.POLLHUP|unix.POLLERR) != 0; p.ended {
		return
	}
	into := make([]byte, p.max)
	if n, _, err := unix.Recvfrom(int(fd), into, unix.MSG_PEEK|unix.MSG_DONTWAIT); err == nil {
		p.content = into[:n]
	}
}
