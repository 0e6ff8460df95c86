package ws

import (
	"bufio"
	"io"
	"sync"
	"syscall"
)

// readBufferSize is how many bytes are read from a socket at once. A control frame must fit.
const readBufferSize = 1024

// readBuffers hold what has been read from sockets and not yet used.
var readBuffers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, readBufferSize) }}

// socket is the reading side of a connection. It borrows a buffer when something has arrived
// and gives it back before it waits: most connections are silent most of the time.
type socket struct {
	conn   io.Reader
	raw    syscall.RawConn // nil if conn can only be read with a buffer at hand, as TLS
	try    func(fd uintptr) bool
	fd     uintptr // to be read without waiting, while raw calls try
	trying bool
	err    error         // of the last try
	buffer *bufio.Reader // nil while the socket waits; it reads from the socket
}

func newSocket(conn io.Reader) *socket {
	s := &socket{conn: conn, raw: rawOf(conn)}
	s.try = s.tryRead // once, so that waiting allocates nothing
	return s
}

// wait waits until something has arrived. Only then buffer may be used, until the next wait.
func (s *socket) wait() error {
	if s.hasMore() {
		return nil
	}
	if s.raw == nil {
		if s.buffer == nil {
			s.borrow()
		}
		_, err := s.buffer.Peek(1)
		return err
	}
	s.giveBack()
	if err := s.raw.Read(s.try); err != nil {
		return err
	}
	return s.err
}

// hasMore reports whether something has been read that is not yet used.
func (s *socket) hasMore() bool { return s.buffer != nil && s.buffer.Buffered() > 0 }

// maxPeek is how many unread bytes isOver looks through.
const maxPeek = 4 << 10

// isOver reports whether what has arrived and is not yet used ends with the end of the connection, or has a close frame
// in its first maxPeek bytes; under TLS, in those that are read. below is the socket itself.
func (s *socket) isOver(below syscall.RawConn) bool {
	arrived, ended := unread(below, maxPeek)
	if ended {
		return true
	}
	var read []byte
	if s.buffer != nil {
		read, _ = s.buffer.Peek(s.buffer.Buffered())
	}
	if s.raw == nil { // what has arrived is not in clear
		arrived = nil
	}
	return hasClose(append(read[:len(read):len(read)], arrived...))
}

// tryRead reads what has arrived into a borrowed buffer. It reports false if that is nothing.
func (s *socket) tryRead(fd uintptr) bool {
	s.borrow()
	s.fd, s.trying = fd, true
	_, s.err = s.buffer.Peek(1)
	s.trying = false
	if s.err == syscall.EAGAIN {
		s.giveBack()
		return false
	}
	return true
}

// Read is called by the buffer.
func (s *socket) Read(p []byte) (int, error) {
	if !s.trying {
		return s.conn.Read(p)
	}
	for {
		switch n, err := readSocket(s.fd, p); {
		case err == syscall.EINTR:
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

func (s *socket) borrow() {
	s.buffer = readBuffers.Get().(*bufio.Reader)
	s.buffer.Reset(s)
}

// giveBack gives the buffer back, and drops what is in it.
func (s *socket) giveBack() {
	if s.buffer != nil {
		s.buffer.Reset(nil)
		readBuffers.Put(s.buffer)
		s.buffer = nil
	}
}

// attempt writes to sockets without waiting. It is for one goroutine at a time.
type attempt struct {
	try  func(fd uintptr) bool // once, so that writing allocates nothing
	left []byte                // what is still to be written
}

func newAttempt() *attempt {
	a := new(attempt)
	a.try = a.tryWrite
	return a
}

// write writes as much of p as the socket takes at once, and returns how much that is.
func (a *attempt) write(socket syscall.RawConn, p []byte) (n int) {
	a.left = p
	_ = socket.Write(a.try) // who writes the rest meets the error again
	n = len(p) - len(a.left)
	a.left = nil
	return n
}

func (a *attempt) tryWrite(fd uintptr) (done bool) {
	for {
		n, err := writeSocket(fd, a.left)
		if err == syscall.EINTR {
			continue
		}
		a.left = a.left[max(n, 0):]
		return true
	}
}
