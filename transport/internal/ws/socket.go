package ws

import (
	"bufio"
	"io"
	"sync"
	"syscall"
)

// readBufferSize is how many bytes are read from a socket at once. It must hold a control frame.
const readBufferSize = 1024

// readBuffers are for sockets with unread bytes.
var readBuffers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, readBufferSize) }}

// socket is the reading side of a connection. It borrows a buffer only to read bytes: most clients are silent.
type socket struct {
	conn   io.Reader
	raw    syscall.RawConn // nil if reading needs a buffer at hand, as with TLS
	try    func(fd uintptr) bool
	fd     uintptr // for reading without waiting, while raw calls try
	trying bool
	err    error         // of the last try
	buffer *bufio.Reader // nil while the socket waits; it reads from the socket
}

func newSocket(conn io.Reader) *socket {
	s := &socket{conn: conn, raw: rawOf(conn)}
	s.try = s.tryRead // once, so that waiting allocates nothing
	return s
}

// wait waits until bytes have arrived. After it, and until the next wait, buffer may be used.
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

// hasMore reports whether the buffer has unused bytes.
func (s *socket) hasMore() bool { return s.buffer != nil && s.buffer.Buffered() > 0 }

// maxPeek is how many unread bytes isOver searches.
const maxPeek = 4 << 10

// isOver reports whether the client has ended the connection behind its unused bytes, or a close frame is in the
// first maxPeek of them; under TLS, in those already decrypted. below is the socket itself.
func (s *socket) isOver(below syscall.RawConn) bool {
	arrived, ended := unread(below, maxPeek)
	if ended {
		return true
	}
	var read []byte
	if s.buffer != nil {
		read, _ = s.buffer.Peek(s.buffer.Buffered())
	}
	if s.raw == nil { // the bytes are encrypted
		arrived = nil
	}
	return hasClose(append(read[:len(read):len(read)], arrived...))
}

// tryRead reads into a borrowed buffer without waiting. It reports false if nothing has arrived.
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

func (s *socket) giveBack() {
	if s.buffer != nil {
		s.buffer.Reset(nil)
		readBuffers.Put(s.buffer)
		s.buffer = nil
	}
}

// attempt writes to sockets without waiting. Only one goroutine may use it at a time.
type attempt struct {
	try  func(fd uintptr) bool // once, so that writing allocates nothing
	left []byte                // the rest to write
}

func newAttempt() *attempt {
	a := new(attempt)
	a.try = a.tryWrite
	return a
}

// write writes as much of p as the socket accepts at once, and returns the number of bytes.
func (a *attempt) write(socket syscall.RawConn, p []byte) (n int) {
	a.left = p
	_ = socket.Write(a.try) // writing the rest meets the error again
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
