package proxy

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// readRequest reads one request: an array of bulk strings, the only form that client libraries use. raw is its text.
func readRequest(r *bufio.Reader) (args []string, raw []byte, err error) {
	raw, err = readLine(r, nil)
	if err != nil {
		return nil, nil, err
	}
	if raw[0] != '*' {
		return nil, nil, fmt.Errorf("request is not an array: %q", raw)
	}
	n, err := length(raw)
	if err != nil {
		return nil, nil, err
	}
	for range n {
		start := len(raw)
		if raw, err = readValue(r, raw); err != nil {
			return nil, nil, unexpected(err)
		}
		if raw[start] != '$' {
			return nil, nil, fmt.Errorf("argument is not a bulk string: %q", raw[start:])
		}
		args = append(args, bulk(raw[start:]))
	}
	return args, raw, nil
}

// readValue appends the bytes of one whole value of RESP2 or RESP3 to raw. It returns an error for streamed
// types, which Redis does not send.
func readValue(r *bufio.Reader, raw []byte) ([]byte, error) {
	start := len(raw)
	raw, err := readLine(r, raw)
	if err != nil {
		return raw, err
	}
	head := raw[start:]
	values := 0 // number of parts that follow
	switch head[0] {
	case '+', '-', ':', '_', ',', '#', '(':
		return raw, nil
	case '$', '=', '!':
		n, err := length(head)
		if err != nil || n < 0 {
			return raw, err
		}
		raw = append(raw, make([]byte, n+len("\r\n"))...)
		_, err = io.ReadFull(r, raw[len(raw)-n-len("\r\n"):])
		return raw, unexpected(err)
	case '*', '~', '>':
		values, err = length(head)
	case '%':
		values, err = length(head)
		values *= 2
	case '|': // attributes precede the value that they describe
		values, err = length(head)
		values = 2*values + 1
	default:
		err = fmt.Errorf("unknown type of value: %q", head)
	}
	if err != nil {
		return raw, err
	}
	for range values { // a null array has -1: none
		if raw, err = readValue(r, raw); err != nil {
			return raw, unexpected(err)
		}
	}
	return raw, nil
}

// readLine appends one line with its CR LF to raw.
func readLine(r *bufio.Reader, raw []byte) ([]byte, error) {
	line, err := r.ReadBytes('\n')
	if err != nil {
		if len(line) > 0 {
			err = unexpected(err)
		}
		return raw, err
	}
	if len(line) < 3 || line[len(line)-2] != '\r' {
		return raw, fmt.Errorf("not a line of RESP: %q", line)
	}
	return append(raw, line...), nil
}

// length returns the number in a header such as $5, *-1 or %2.
func length(line []byte) (int, error) {
	digits, _, _ := bytes.Cut(line[1:], []byte("\r\n"))
	n, err := strconv.Atoi(string(digits))
	if err != nil || n < -1 {
		return 0, fmt.Errorf("not a length: %q", line)
	}
	return n, nil
}

// bulk returns the text of a bulk string on the wire, "" for a null.
func bulk(raw []byte) string {
	_, text, _ := bytes.Cut(raw, []byte("\r\n"))
	return string(bytes.TrimSuffix(text, []byte("\r\n")))
}

// unexpected returns io.ErrUnexpectedEOF for an io.EOF inside a value.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
